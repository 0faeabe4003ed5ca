//! What agents of Consul respond with: keys, and instances of services.

use crate::delivery::{BadDelivery, Delivery, Document, MAX_DOCUMENTS, MAX_NAME, is_name};
use crate::endpoints::Endpoint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

/// A key.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyValue {
    key: String,
    /// In Base64; nothing for an empty one.
    value: Option<String>,
}

/// An instance of a service.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    node: Node,
    service: Service,
}

/// Where an instance runs.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Node {
    address: String,
}

/// What an instance is registered as.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Service {
    /// Empty where it is that of its node.
    address: String,
    port: u16,
    weights: Weights,
}

/// The shares of an instance.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Weights {
    /// While it passes all its checks.
    passing: u64,
}

/// All that the keys below a prefix are.
pub(crate) fn delivery(body: &[u8], prefix: &str, index: u64) -> Result<Delivery, String> {
    let keys: Vec<KeyValue> = read(body)?;
    if keys.len() > MAX_DOCUMENTS {
        return Err(BadDelivery::TooMany(keys.len()).to_string());
    }
    let (mut documents, mut skipped) = (Vec::new(), Vec::new());
    for KeyValue { key, value } in keys {
        let name = key.strip_prefix(prefix).unwrap_or(&key);
        // Folders, which Consul's page makes: keys that end so and have no value.
        if value.is_none() && (name.is_empty() || name.ends_with('/')) {
            continue;
        }
        match document(name, &value.unwrap_or_default()) {
            Ok(document) => documents.push(document),
            Err(why) => skipped.push((name.as_bytes().to_vec(), why)),
        }
    }
    let delivery = Delivery::new(index.to_string(), documents).map_err(|bad| bad.to_string())?;
    Ok(delivery.without(skipped))
}

fn document(name: &str, value: &str) -> Result<Document, String> {
    if !is_name(name) {
        return Err(format!(
            "what follows the prefix is no name of a document: these have 1 to {MAX_NAME} letters, digits, `.`, `_`, `-`, `:` and \
             `/`, and no part that is empty, `.` or `..`"
        ));
    }
    let bytes = STANDARD.decode(value).map_err(|_| "its value is not Base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "its value is not UTF-8")?;
    Ok(Document { name: name.to_owned(), text })
}

/// The instances of a service that can be endpoints, and how many cannot: those with a name in place of an address, or without a port.
pub(crate) fn endpoints(body: &[u8]) -> Result<(Vec<Endpoint>, usize), String> {
    let instances: Vec<Instance> = read(body)?;
    let count = instances.len();
    let endpoints: Vec<_> = instances.iter().filter_map(Instance::endpoint).collect();
    let left_out = count - endpoints.len();
    Ok((endpoints, left_out))
}

impl Instance {
    fn endpoint(&self) -> Option<Endpoint> {
        let Service { address, port, weights } = &self.service;
        let address = if address.is_empty() { &self.node.address } else { address };
        let address: IpAddr = address.parse().ok()?;
        let weight = u16::try_from(weights.passing.max(1)).unwrap_or(u16::MAX);
        Some(Endpoint {
            address: SocketAddr::new(address, NonZeroU16::new(*port)?.get()),
            weight: NonZeroU16::new(weight)?,
        })
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<Vec<T>, String> {
    // Nothing is there: Consul responds with 404 and no body.
    if body.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice(body).map_err(|_| "its response is not that of Consul".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_documents_and_folders_are_not() {
        let body = r#"[
            {"LockIndex":0,"Key":"titan/","Flags":0,"Value":null,"CreateIndex":5,"ModifyIndex":5},
            {"LockIndex":0,"Key":"titan/shop/","Flags":0,"Value":null,"CreateIndex":5,"ModifyIndex":5},
            {"LockIndex":0,"Key":"titan/shop/a.yaml","Flags":0,"Value":"eA==","CreateIndex":6,"ModifyIndex":7},
            {"LockIndex":0,"Key":"titan/empty","Flags":0,"Value":null,"CreateIndex":6,"ModifyIndex":7},
            {"LockIndex":0,"Key":"titan/no name","Flags":0,"Value":"eA==","CreateIndex":6,"ModifyIndex":7},
            {"LockIndex":0,"Key":"titan/binary","Flags":0,"Value":"/w==","CreateIndex":6,"ModifyIndex":7}
        ]"#;
        let delivery = delivery(body.as_bytes(), "titan/", 7).unwrap();
        let documents: Vec<_> =
            delivery.documents().iter().map(|it| (it.name.as_str(), it.text.as_str())).collect();
        assert_eq!(documents, [("empty", ""), ("shop/a.yaml", "x")]);
        assert_eq!(delivery.revision(), "7");
        assert_eq!(delivery.skipped().keys().collect::<Vec<_>>(), ["binary", "no name"]);
    }

    #[test]
    fn instances_are_endpoints_where_they_have_addresses() {
        let body = r#"[
            {"Node":{"Node":"n","Address":"10.0.0.1"},"Checks":[],
             "Service":{"ID":"a","Address":"","Port":80,"Weights":{"Passing":3,"Warning":1}}},
            {"Node":{"Address":"10.0.0.1"},"Service":{"Address":"fd00::1","Port":81}},
            {"Node":{"Address":"10.0.0.1"},"Service":{"Address":"shop.internal","Port":82}},
            {"Node":{"Address":"10.0.0.1"},"Service":{"Port":0}}
        ]"#;
        let (endpoints, left_out) = endpoints(body.as_bytes()).unwrap();
        let told: Vec<_> =
            endpoints.iter().map(|it| (it.address.to_string(), it.weight.get())).collect();
        assert_eq!(told, [("10.0.0.1:80".to_owned(), 3), ("[fd00::1]:81".to_owned(), 1)]);
        assert_eq!(left_out, 2);
    }

    #[test]
    fn what_consul_does_not_write_is_no_response() {
        for body in ["{}", "<html>", r#"[{"Key":7}]"#] {
            assert!(delivery(body.as_bytes(), "t/", 1).is_err(), "{body}");
        }
        assert_eq!(delivery(b"", "t/", 1).unwrap().documents().len(), 0);
    }
}
