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
	Look      bool         `json:"look"` // answer with the links of the GPUs that NVML shows instead
}

// seen are the links of the machine's GPUs, as the allocator reads them from NVML.
func seen() any {
	devices, err := gpuallocator.NewDevices()
	if err != nil {
		return err.Error()
	}
	rows := [][][]uint64{}
	for _, one := range devices {
		row := [][]uint64{}
		for _, other := range devices {
			kinds := []uint64{}
			for _, link := range one.Links[other.Index] {
				kinds = append(kinds, reflect.ValueOf(link).FieldByName("Type").Uint())
			}
			row = append(row, kinds)
		}
		rows = append(rows, row)
	}
	return rows
}

func main() {
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<24)
	for lines.Scan() {
		var told request
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			panic(err)
		}
		if told.Look {
			if err := out.Encode(seen()); err != nil {
				return
			}
			continue
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
