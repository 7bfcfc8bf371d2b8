// gpu-allocator answers with NVIDIA's own best-effort policy, one question a line. It needs no GPU and no driver.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"reflect"
	"strconv"

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"
)

type request struct {
	Links     [][][]uint64 `json:"links"` // (G, G) link types of a pair, in the allocator's numbers
	Available []int        `json:"available"`
	Required  []int        `json:"required"`
	Size      int          `json:"size"`
}

func main() {
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<24)
	for lines.Scan() {
		var told request
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			panic(err)
		}
		all := make([]*gpuallocator.Device, len(told.Links))
		for n := range all {
			all[n] = &gpuallocator.Device{Index: n, Links: map[int][]gpuallocator.P2PLink{}}
			all[n].UUID = strconv.Itoa(n)
		}
		for a, row := range told.Links {
			for b, types := range row {
				for _, kind := range types {
					link := gpuallocator.P2PLink{GPU: all[b]}
					reflect.ValueOf(&link).Elem().FieldByName("Type").SetUint(kind)
					all[a].Links[b] = append(all[a].Links[b], link)
				}
			}
		}
		pick := func(at []int) []*gpuallocator.Device {
			found := []*gpuallocator.Device{}
			for _, n := range at {
				found = append(found, all[n])
			}
			return found
		}
		result := []int{}
		for _, device := range gpuallocator.NewBestEffortPolicy().Allocate(pick(told.Available), pick(told.Required), told.Size) {
			if device == nil {
				result = append(result, -1)
			} else {
				result = append(result, device.Index)
			}
		}
		if err := out.Encode(result); err != nil {
			return
		}
	}
}
