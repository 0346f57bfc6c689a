//! Checks JSON against docs/json-schema.json, as strictly as the schema is: a member that it does not declare is an error.
//!
//! It knows the keywords of JSON Schema that the file uses, and panics on any other, so that no rule there goes unchecked.

use serde_json::Value;
use std::sync::LazyLock;

/// The schema.
pub static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json-schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
});

/// Parses an output of `firn --json`, which has to be as the schema says.
#[track_caller]
pub fn parse(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if let Err(error) = check(&value) {
        panic!("{error}\n{value:#}");
    }
    value
}

/// Checks a document against the definitions of its command; the error is that of the definition that came closest.
pub fn check(value: &Value) -> Result<(), String> {
    let definitions = SCHEMA["anyOf"].as_array().unwrap().iter();
    let mut errors = Vec::new();
    for definition in
        definitions.map(target).filter(|d| d["properties"]["command"]["const"] == value["command"])
    {
        let mut found = Vec::new();
        compare(definition, value, "", &mut found);
        if found.is_empty() {
            return Ok(());
        }
        errors.push(found);
    }
    match errors.iter().min_by_key(|found| found.len()) {
        Some(closest) => Err(closest.join("\n")),
        None => Err(format!("no definition of the command {}", value["command"])),
    }
}

/// The schema that a reference leads to.
fn target(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(reference) => SCHEMA.pointer(reference.trim_start_matches('#')).expect(reference),
        None => schema,
    }
}

fn compare(schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
    if *schema == Value::Bool(false) {
        return errors.push(format!("{at}: not declared"));
    }
    for (keyword, rule) in schema.as_object().unwrap() {
        let holds = match keyword.as_str() {
            "description" | "required" | "additionalProperties" | "prefixItems" => true,
            "$ref" => {
                compare(target(schema), value, at, errors);
                true
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is_of_type(value, name)),
                name => is_of_type(value, name),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|list| list.len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|list| list.len() as u64 <= rule.as_u64().unwrap()),
            "anyOf" => {
                any_of(rule.as_array().unwrap(), value, at, errors);
                true
            }
            "items" => {
                items(schema, value, at, errors);
                true
            }
            "properties" => {
                members(schema, value, at, errors);
                true
            }
            other => panic!("{at}: this check does not know the keyword {other}"),
        };
        if !holds {
            errors.push(format!("{at}: {value} is not {keyword} {rule}"));
        }
    }
    // A map with members of any name.
    if let (Some(rule), None, Some(map)) =
        (schema.get("additionalProperties"), schema.get("properties"), value.as_object())
    {
        map.iter().for_each(|(name, inner)| compare(rule, inner, &format!("{at}.{name}"), errors));
    }
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

/// Reports the errors of the choice that came closest.
fn any_of(choices: &[Value], value: &Value, at: &str, errors: &mut Vec<String>) {
    let failures = choices.iter().map(|choice| {
        let mut found = Vec::new();
        compare(choice, value, at, &mut found);
        found
    });
    errors.extend(failures.min_by_key(Vec::len).expect("a choice"));
}

fn items(schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
    let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    for (n, inner) in value.as_array().into_iter().flatten().enumerate() {
        compare(first.get(n).unwrap_or(&schema["items"]), inner, &format!("{at}[{n}]"), errors);
    }
}

fn members(schema: &Value, value: &Value, at: &str, errors: &mut Vec<String>) {
    let Some(object) = value.as_object() else { return };
    let declared = schema["properties"].as_object().unwrap();
    assert_eq!(schema["additionalProperties"], false, "{at}: an object that allows undeclared members");
    for name in schema["required"].as_array().unwrap() {
        if !object.contains_key(name.as_str().unwrap()) {
            errors.push(format!("{at}: {} is missing", name.as_str().unwrap()));
        }
    }
    for (name, inner) in object {
        let rule = declared.get(name).unwrap_or(&Value::Bool(false));
        compare(rule, inner, &format!("{at}.{name}"), errors);
    }
}
