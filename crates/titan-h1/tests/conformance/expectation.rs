//! What a vector expects, compared with what came of it.

use crate::drive::{Lines, Message, Verdict};
use crate::vectors::{Vector, bytes};
use serde_json::Value;

impl Vector {
    /// How `actual` differs from what the vector expects.
    pub(crate) fn check(&self, actual: &Verdict) -> Result<(), String> {
        let word = match actual {
            Verdict::Accept(_) => "accept",
            Verdict::Reject(_) => "reject",
            Verdict::Incomplete => "incomplete",
        };
        same("verdict", &self.json["verdict"], &Value::from(word))
            .map_err(|difference| format!("{difference}: {actual:?}"))?;
        match actual {
            Verdict::Reject(error) if self.setting.response_to.is_none() => {
                same("status", &self.json["status"], &Value::from(error.status().code()))
            }
            Verdict::Accept(message) => self.check_message(message),
            _ => Ok(()),
        }
    }

    fn check_message(&self, message: &Message) -> Result<(), String> {
        let json = &self.json;
        let rest = match message.persist || self.setting.response_to.is_some() {
            true => message.rest.as_slice(),
            false => b"",
        };
        same("head", &json["head"], &self.head(&message.start_line))?;
        same("fields", &json["fields"], &pairs(&message.fields))?;
        same("body", &text(&bytes(&json["body"])), &text(&message.body))?;
        same("trailers", &or_empty(&json["trailers"]), &pairs(&message.trailers))?;
        same("persist", &json["persist"], &Value::from(message.persist))?;
        same("rest", &text(&bytes(&json["rest"])), &text(rest))?;
        let expects = json["expect_continue"] == true;
        same("expect", &Value::from(expects), &Value::from(message.expect_continue))?;
        let interim = message.interim.iter().map(|(line, fields)| {
            let mut head = self.head(line);
            head["fields"] = pairs(fields);
            head
        });
        same("interim", &or_empty(&json["interim"]), &interim.collect())
    }

    fn head(&self, [first, second, third]: &[Vec<u8>; 3]) -> Value {
        match self.setting.response_to {
            None => serde_json::json!({
                "method": text(first), "target": text(second), "version": text(third)
            }),
            Some(_) => {
                let status: u16 = String::from_utf8_lossy(second).parse().expect("digits");
                serde_json::json!({
                    "version": text(first), "status": status, "reason": text(third)
                })
            }
        }
    }
}

fn same(what: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    match expected == actual {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected}, got {actual}")),
    }
}

fn text(bytes: &[u8]) -> Value {
    bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into()
}

fn pairs(lines: &Lines) -> Value {
    lines.iter().map(|(name, value)| Value::Array(vec![text(name), text(value)])).collect()
}

fn or_empty(json: &Value) -> Value {
    match json {
        Value::Null => Value::Array(Vec::new()),
        other => other.clone(),
    }
}
