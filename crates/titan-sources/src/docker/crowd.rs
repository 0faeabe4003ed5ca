//! The containers that are taken of those that an engine lists: the oldest ones, as many as are bounded.

use super::container::Container;
use super::items::Item;
use crate::message::shown;
use std::collections::BTreeMap;

/// Containers that want to be served.
#[derive(Default)]
pub(crate) struct Crowd {
    /// By age, the oldest first.
    kept: BTreeMap<(i64, String), Container>,
    refused: Vec<(String, String)>,
    /// Whether there was any container that could be read, and why one could not.
    is_read: bool,
    unreadable: Option<serde_json::Error>,
}

/// Containers that are taken, and those that are refused, with the reasons.
type Parts = (Vec<Container>, Vec<(String, String)>);

/// Containers that are taken.
pub(crate) const MAX_CONTAINERS: usize = 4_096;
/// Bytes of what an engine says of a container.
pub(crate) const MAX_CONTAINER: usize = 64 << 10;
/// Containers that are refused here and told of; of more, which would be too many to read, nothing is told.
const MAX_REFUSED: usize = MAX_CONTAINERS;

impl Crowd {
    /// Takes one that the engine lists, in any order.
    pub(crate) fn take(&mut self, item: Item<'_>) -> Result<(), serde_json::Error> {
        let text = match item {
            Item::Whole(text) => text,
            Item::TooLarge(text) => {
                let why = format!("what the engine says of it has more than {MAX_CONTAINER} bytes");
                self.refuse(id(text), why);
                return Ok(());
            }
        };
        let mut container: Container = match serde_json::from_slice(text) {
            Ok(container) => container,
            // What is no container at all says that the list is none.
            Err(error) if id(text) == "?" => return Err(error),
            Err(error) => {
                self.refuse(
                    id(text),
                    format!("what the engine says of it cannot be read: {error}"),
                );
                self.unreadable.get_or_insert(error);
                return Ok(());
            }
        };
        self.is_read = true;
        if !container.is_to_be_served() {
            return Ok(());
        }
        container.forget_other_labels();
        if let Err(why) = container.check_bounds() {
            self.refuse(container.name().to_owned(), why);
            return Ok(());
        }
        self.kept.insert((container.created, container.id.clone()), container);
        if self.kept.len() > MAX_CONTAINERS
            && let Some((_, youngest)) = self.kept.pop_last()
        {
            let why = format!(
                "at most {MAX_CONTAINERS} containers with `titan.enable` are taken, and so many are older"
            );
            self.refuse(youngest.name().to_owned(), why);
        }
        Ok(())
    }

    /// The ids of those that are taken.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(|(_, id)| id.as_str())
    }

    /// The containers that are taken, the oldest first, and those that are refused, with the reasons.
    ///
    /// # Errors
    ///
    /// If none could be read: then it is the engine that is not understood, and no container has gone.
    pub(crate) fn into_parts(self) -> Result<Parts, serde_json::Error> {
        match self.unreadable {
            Some(error) if !self.is_read => Err(error),
            _ => Ok((self.kept.into_values().collect(), self.refused)),
        }
    }

    fn refuse(&mut self, name: String, why: String) {
        if self.refused.len() < MAX_REFUSED {
            self.refused.push((name, why));
        }
    }
}

/// The id of a container of which there is only the beginning, where engines write it.
fn id(beginning: &[u8]) -> String {
    let text = String::from_utf8_lossy(beginning);
    let id = text.split('"').nth(3).filter(|_| text.starts_with(r#"{"Id":""#));
    id.map_or_else(|| "?".to_owned(), |id| shown(id).chars().take(12).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(id: &str, created: usize, labels: &serde_json::Value) -> String {
        json!({ "Id": id, "Created": created, "Labels": labels }).to_string()
    }

    fn taken(items: impl Iterator<Item = String>) -> (Vec<String>, Vec<(String, String)>) {
        let mut crowd = Crowd::default();
        items.for_each(|text| crowd.take(Item::Whole(text.as_bytes())).unwrap());
        let (kept, refused) = crowd.into_parts().unwrap();
        (kept.into_iter().map(|it| it.id).collect(), refused)
    }

    #[test]
    fn of_too_many_the_youngest_are_refused() {
        let enabled = json!({ "titan.enable": "true" });
        let others = json!({ "titan.enable": "false" });
        let count = MAX_CONTAINERS + 2;
        // As engines do, the youngest first, and many between them that want nothing.
        let all = (0..count).rev().flat_map(|number| {
            [(number.to_string(), &enabled), (format!("other{number}"), &others)]
                .map(|(id, labels)| item(&id, number, labels))
        });
        let (kept, refused) = taken(all);
        assert_eq!((kept.len(), kept[0].as_str()), (MAX_CONTAINERS, "0"));
        let names: Vec<_> = refused.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, [(count - 1).to_string(), (count - 2).to_string()]);
        assert!(refused[0].1.contains("at most 4096 containers"), "{}", refused[0].1);
    }

    #[test]
    fn one_of_which_too_much_is_said_is_refused_alone() {
        let value = "x".repeat(4_000);
        let mut labels = json!({ "titan.enable": "true" });
        for number in 0..5 {
            labels[format!("titan.http.routers.{number}.rule")] = json!(value);
        }
        let (kept, refused) = taken(
            [item("big", 1, &labels), item("one", 2, &json!({ "titan.enable": "1" }))].into_iter(),
        );
        assert_eq!(kept, ["one"]);
        assert_eq!(refused[0].0, "big");
        assert!(refused[0].1.contains("more than 16384 bytes"), "{}", refused[0].1);
        let mut crowd = Crowd::default();
        crowd.take(Item::TooLarge(br#"{"Id":"0123456789abcdef","Names":["#)).unwrap();
        crowd.take(Item::TooLarge(b"{")).unwrap();
        let refused = crowd.into_parts().unwrap().1;
        assert_eq!([&refused[0].0, &refused[1].0], ["0123456789ab", "?"]);
    }

    #[test]
    fn one_that_cannot_be_read_is_refused_alone_and_a_list_of_such_is_none() {
        let good = item("0123456789abcdef", 1, &json!({ "titan.enable": "true" }));
        let odd = r#"{"Id":"fedcba9876543210","Created":"yesterday"}"#;
        let (kept, refused) = taken([odd.to_owned(), good].into_iter());
        assert_eq!((kept.len(), refused.len(), refused[0].0.as_str()), (1, 1, "fedcba987654"));
        assert!(refused[0].1.contains("cannot be read"), "{}", refused[0].1);
        let mut crowd = Crowd::default();
        crowd.take(Item::Whole(odd.as_bytes())).unwrap();
        assert!(crowd.into_parts().is_err());
        assert!(Crowd::default().take(Item::Whole(b"{\"message\":7,\"Names\":0}")).is_err());
    }

    #[test]
    fn ports_networks_and_names_are_bounded() {
        let of = |ports: usize, networks: usize, names: usize| {
            let networks = (0..networks).map(|it| (it.to_string(), json!({})));
            let networks: serde_json::Map<_, _> = networks.collect();
            let ports = vec![json!({ "PrivatePort": 1 }); ports];
            let text = json!({
                "Id": "a", "Created": 1, "Labels": { "titan.enable": "true" }, "Ports": ports,
                "Names": vec!["/a"; names], "NetworkSettings": { "Networks": networks },
            });
            taken([text.to_string()].into_iter())
        };
        assert_eq!(of(512, 64, 64).0.len(), 1);
        for (ports, networks, names) in [(513, 1, 1), (1, 65, 1), (1, 1, 65)] {
            let (kept, refused) = of(ports, networks, names);
            assert_eq!((kept.len(), refused.len()), (0, 1));
            assert!(refused[0].1.contains(&format!("{ports} ports, {networks} networks")));
        }
    }

    #[test]
    fn labels_of_others_cost_nothing() {
        let labels = json!({
            "titan.enable": "true", "a": "x".repeat(20_000),
            "com.docker.compose.project": "p", "com.docker.compose.service": "s",
        });
        let mut crowd = Crowd::default();
        crowd.take(Item::Whole(item("one", 1, &labels).as_bytes())).unwrap();
        let (kept, _) = crowd.into_parts().unwrap();
        assert_eq!((kept[0].labels.len(), kept[0].own_service()), (3, "p-s".to_owned()));
    }
}
