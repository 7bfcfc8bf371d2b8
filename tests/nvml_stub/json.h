// A reader of JSON, as much of it as a machine file needs: objects, arrays, strings without escapes, whole numbers.
#ifndef JSON_H
#define JSON_H

typedef struct json json;
struct json {
    enum { J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT } kind;
    long number;     // also of a bool
    char *text;      // of a string
    char **names;    // of an object's members
    json **members;  // of an object or array
    int count;
};

json *json_parse(const char *text);  // NULL where it is none
void json_free(json *value);
const json *json_at(const json *value, const char *name);  // NULL where there is none
const json *json_item(const json *value, int index);
long json_number(const json *value, const char *name, long otherwise);
const char *json_text(const json *value, const char *name, const char *otherwise);

#endif
