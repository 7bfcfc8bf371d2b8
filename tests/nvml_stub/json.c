#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static json *value_at(const char **at);

static void skip(const char **at) {
    while (isspace((unsigned char)**at)) (*at)++;
}

static json *made(int kind) {
    json *value = calloc(1, sizeof(json));
    value->kind = kind;
    return value;
}

static char *string_at(const char **at) {
    if (**at != '"') return NULL;
    const char *end = strchr(++*at, '"');
    if (!end) return NULL;
    char *text = strndup(*at, (size_t)(end - *at));
    *at = end + 1;
    return text;
}

static void add(json *to, char *name, json *member) {
    to->names = realloc(to->names, sizeof(char *) * (size_t)(to->count + 1));
    to->members = realloc(to->members, sizeof(json *) * (size_t)(to->count + 1));
    to->names[to->count] = name;
    to->members[to->count++] = member;
}

static json *members_at(const char **at, int kind, char end) {
    json *value = made(kind);
    (*at)++;
    for (skip(at); **at && **at != end; skip(at)) {
        char *name = NULL;
        if (kind == J_OBJECT) {
            name = string_at(at);
            skip(at);
            if (!name || **at != ':') break;
            (*at)++;
        }
        json *member = value_at(at);
        if (!member) break;
        add(value, name, member);
        skip(at);
        if (**at == ',') (*at)++;
        else if (**at != end) break;
    }
    if (**at != end) {
        json_free(value);
        return NULL;
    }
    (*at)++;
    return value;
}

static json *value_at(const char **at) {
    skip(at);
    json *value;
    if (**at == '{') return members_at(at, J_OBJECT, '}');
    if (**at == '[') return members_at(at, J_ARRAY, ']');
    if (**at == '"') {
        value = made(J_STRING);
        value->text = string_at(at);
        return value;
    }
    static const struct { const char *word; int kind; long number; } words[] = {
        {"true", J_BOOL, 1}, {"false", J_BOOL, 0}, {"null", J_NULL, 0}};
    for (int n = 0; n < 3; n++) {
        size_t length = strlen(words[n].word);
        if (!strncmp(*at, words[n].word, length)) {
            *at += length;
            value = made(words[n].kind);
            value->number = words[n].number;
            return value;
        }
    }
    char *end;
    long number = strtol(*at, &end, 10);
    if (end == *at) return NULL;
    *at = end;
    value = made(J_NUMBER);
    value->number = number;
    return value;
}

json *json_parse(const char *text) { return value_at(&text); }

void json_free(json *value) {
    if (!value) return;
    for (int n = 0; n < value->count; n++) {
        free(value->names[n]);
        json_free(value->members[n]);
    }
    free(value->names);
    free(value->members);
    free(value->text);
    free(value);
}

const json *json_at(const json *value, const char *name) {
    for (int n = 0; value && value->kind == J_OBJECT && n < value->count; n++)
        if (!strcmp(value->names[n], name)) return value->members[n];
    return NULL;
}

const json *json_item(const json *value, int index) {
    return value && index >= 0 && index < value->count ? value->members[index] : NULL;
}

long json_number(const json *value, const char *name, long otherwise) {
    const json *found = json_at(value, name);
    return found && (found->kind == J_NUMBER || found->kind == J_BOOL) ? found->number : otherwise;
}

const char *json_text(const json *value, const char *name, const char *otherwise) {
    const json *found = json_at(value, name);
    return found && found->kind == J_STRING ? found->text : otherwise;
}
