//! The algorithm, with errors that know which of its fields is wrong.
//!
//! Which fields there may be depends on the name, so [`Algorithm`] reads all of them before it
//! looks at any, and where it was reading is forgotten by then. Here each is tried as it is read.

use std::fmt;

use selection::Algorithm;
use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Algorithm, D::Error> {
    d.deserialize_any(NameOrMap)
}

struct NameOrMap;

impl<'de> Visitor<'de> for NameOrMap {
    type Value = Algorithm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an algorithm, or a map with its name under `algorithm`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Algorithm, E> {
        Algorithm::deserialize(StrDeserializer::new(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Algorithm, A::Error> {
        let mut read = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if read.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            let name = read.get(NAME).cloned();
            let value = entries.next_value_seed(Field { name, key: &key })?;
            read.insert(key, value);
        }
        Algorithm::deserialize(Value::Object(read)).map_err(A::Error::custom)
    }
}

/// The value of one field.
struct Field<'a> {
    /// Of the algorithm, if it came before.
    name: Option<Value>,
    key: &'a str,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let alone = match self.name {
            _ if self.key == NAME => Map::from_iter([(NAME.to_owned(), value.clone())]),
            Some(name) => {
                let field = (self.key.to_owned(), value.clone());
                Map::from_iter([(NAME.to_owned(), name), field])
            }
            None => return Ok(value),
        };
        match Algorithm::deserialize(Value::Object(alone)) {
            Err(error) if !needs_others(&error) => Err(D::Error::custom(error)),
            _ => Ok(value),
        }
    }
}

/// Whether the field may be right all the same, beside another.
fn needs_others(error: &serde_json::Error) -> bool {
    error.to_string().contains("applies only with")
}

const NAME: &str = "algorithm";
