//! User names and passwords (RFC 7617).

mod queue;
mod remembered;
mod users;
mod verifiers;

use crate::authorise::{PASSWORD, PASSWORD_QUEUE};
pub(crate) use remembered::Remembered;
use remembered::Verdict;
pub(crate) use users::Users;
pub(crate) use verifiers::Verifiers;

use super::OwnState;
use crate::context::{Failure, PolicyContext};
use crate::jwt::credentials;
use crate::story::Story;
use arc_swap::ArcSwap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;
use titan_http::{BadField, FieldName, Fields, RequestHead, ResponseHead};
use titan_io::error::{Error, Kind};
use titan_io::network::ClientNetwork;
use titan_io::registry::Registry;

/// Names and passwords of which a request must present one.
pub(super) struct Basic {
    config: titan_config::Basic,
    /// They outlive a configuration: what was found right with them counts as long as they are the same.
    users: Arc<ArcSwap<Users>>,
    challenge: Box<[u8]>,
    verifiers: Arc<Verifiers>,
}

/// What makes a password that was right a right one still: that it is for the same policy. Users have generations.
#[derive(PartialEq, Eq)]
struct UsersKey {
    policy: String,
    config: titan_config::Basic,
}

impl Hash for UsersKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.hash(state);
    }
}

/// What a response has to say of passwords.
#[derive(Clone, Copy)]
pub(super) enum PasswordChallenge {
    /// That one is needed.
    Wanted,
    /// When to come again: too many wait to be checked.
    Busy,
}

/// What a request shows.
pub(super) struct Shown {
    /// All of it.
    bytes: Vec<u8>,
    /// Where in it the colon stands.
    colon: usize,
}

/// How soon there may be room in the queue again, in seconds.
const SOON: &[u8] = b"1";
/// Bytes of what is shown, as it is sent.
const MAX_SHOWN: usize = 2048;

impl Basic {
    /// With the users that the policy of that name has already, or else those that were read for it now.
    pub(super) fn new(
        (policy, config): (&str, &titan_config::Basic),
        users: Arc<Users>,
        verifiers: &Arc<Verifiers>,
        registry: &Registry,
    ) -> Basic {
        let key = UsersKey { policy: policy.to_owned(), config: config.clone() };
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm.as_str());
        Basic {
            config: config.clone(),
            users: registry.shared(key, || ArcSwap::new(users)),
            challenge: challenge.into_bytes().into(),
            verifiers: Arc::clone(verifiers),
        }
    }

    /// Starts the threads that check passwords, unless they are there already.
    pub(super) fn start(&self) -> io::Result<()> {
        self.verifiers.start()
    }

    /// Takes other users. What was right before counts no more, unless nothing has changed.
    pub(super) fn replace_users(&self, users: Arc<Users>) {
        if !self.users.load().is_same_as(&users) {
            self.users.store(users);
        }
    }

    /// Takes the password out of a request; it goes on with one that is right.
    pub(super) async fn on_request(
        &self,
        context: &mut PolicyContext<'_>,
        own: &mut OwnState<'_>,
    ) -> Result<(), Error> {
        let shown = self.take(&mut context.request.fields);
        let Some(shown) = shown else {
            own.state.password = Some(PasswordChallenge::Wanted);
            return Err(PASSWORD.into());
        };
        if let Err(kind) = self.check(&shown, context, own).await {
            if kind == PASSWORD {
                context.fail(Failure::Password);
            }
            let note = if kind == PASSWORD_QUEUE {
                PasswordChallenge::Busy
            } else {
                PasswordChallenge::Wanted
            };
            own.state.password = Some(note);
            return Err(kind.into());
        }
        self.write_identity(&shown, &mut context.request.fields)
    }

    /// Writes the user name for the upstream.
    pub(super) fn write_identity(&self, shown: &Shown, fields: &mut Fields) -> Result<(), Error> {
        let field = self.config.identity_header.as_ref().map(|field| field.as_str().as_bytes());
        let told = field.map_or(Ok(()), |field| fields.append_named(field, shown.name()));
        told.map_err(|_| Kind::Internal.into())
    }

    pub(super) fn on_response(
        &self,
        note: PasswordChallenge,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        match note {
            PasswordChallenge::Wanted => {
                head.fields.append(FieldName::WwwAuthenticate, &self.challenge)
            }
            PasswordChallenge::Busy => head.fields.append_named(b"Retry-After", SOON),
        }
    }

    /// What can be said of a request without checking the password.
    pub(super) fn explain(&self, request: &mut RequestHead, story: &mut Story<'_>) {
        match self.take(&mut request.fields) {
            Some(shown) => {
                let name = String::from_utf8_lossy(shown.name()).into_owned();
                story.tell(format!("has a password for `{name}`, which `explain` does not check"));
            }
            None => story.refuse(PASSWORD, "needs a user name and a password"),
        }
    }

    /// What a request shows; nothing where it shows several.
    fn take(&self, fields: &mut Fields) -> Option<Shown> {
        let shown = Shown::of(fields);
        if !self.config.forward {
            fields.remove(FieldName::Authorization);
        }
        shown
    }

    /// Whether the upstream gets the password.
    pub(super) fn forwards(&self) -> bool {
        self.config.forward
    }

    /// Whether that is right.
    pub(super) async fn check(
        &self,
        shown: &Shown,
        context: &PolicyContext<'_>,
        own: &OwnState<'_>,
    ) -> Result<(), Kind> {
        let users = self.users.load_full();
        let (remembered, clock) = (&own.kept.passwords, context.clock);
        let cells = own.cells;
        let digest = remembered.digest(users.generation(), &shown.bytes);
        let known = digest.and_then(|digest| remembered.verdict(&digest, clock));
        if let Some(verdict) = known {
            cells.passwords_remembered.add(1);
            return verdict.into();
        }
        // Whether there is a user of that name does not show in how long it takes.
        let (hash, is_known) = users.find(shown.name()).ok_or(PASSWORD)?;
        let client = context.client().map(ClientNetwork::of);
        let is_right = self.verifiers.check(client, hash, shown.password()).await?;
        cells.passwords_checked.add(1);
        let verdict = if is_right && is_known { Verdict::Right } else { Verdict::Wrong };
        if let Some(digest) = digest {
            remembered.insert(digest, verdict, clock);
        }
        verdict.into()
    }
}

/// The user whose password a request carries, no matter which policy needs it.
pub(crate) fn presented_user(fields: &Fields) -> Option<Vec<u8>> {
    Some(Shown::of(fields)?.name().to_vec())
}

impl Shown {
    /// What a request shows; nothing where it shows several.
    pub(super) fn of(fields: &Fields) -> Option<Shown> {
        let mut values = fields.all(FieldName::Authorization);
        values.next().filter(|_| values.next().is_none()).and_then(Shown::parse)
    }

    fn parse(value: &[u8]) -> Option<Shown> {
        let text = credentials(value, "Basic").filter(|text| text.len() <= MAX_SHOWN)?;
        let bytes = BASE64_STANDARD.decode(text).ok()?;
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let is_fine = !bytes.iter().any(u8::is_ascii_control);
        is_fine.then_some(Shown { bytes, colon })
    }

    fn name(&self) -> &[u8] {
        &self.bytes[..self.colon]
    }

    fn password(&self) -> &[u8] {
        &self.bytes[self.colon + 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::Policy;
    use titan_io::tls::Files;

    const USERS: &str =
        "users: { eve: $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW }";

    /// The users of a policy with that section, and what `registry` has of them; and those that are in its file by now.
    fn later(registry: &Registry, section: &str, file: &str) -> (Basic, Arc<Users>) {
        let policy = format!("authorise: {{ basic: {{ file: f, {section} }} }}");
        let text = format!(
            "{{ listeners: [':0'], apply: [p], routes: [{{ respond: 204 }}], policies: {{ p: {{ {policy} }} }} }}"
        );
        let config = titan_config::Config::parse("test", &text);
        let config = config.unwrap_or_else(|report| panic!("{report}"));
        let Policy::Authorise(own) = &config.policies[0].policy else { panic!("it is one") };
        let mut files = Files::default();
        files.insert("f".into(), file.as_bytes().to_vec());
        let users = Arc::new(Users::read(own.basic.as_ref().unwrap(), &files).unwrap());
        let verifiers = registry.shared((), Verifiers::default);
        let section = own.basic.as_ref().unwrap();
        (Basic::new(("p", section), Arc::clone(&users), &verifiers, registry), users)
    }

    #[test]
    fn passwords_are_right_for_the_same_users() {
        let registry = Registry::default();
        let hash = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
        let generation = |basic: &Basic| basic.users.load().generation();
        let (before, _) = later(&registry, USERS, "");
        let (after, same) = later(&registry, USERS, "");
        after.replace_users(same);
        assert_eq!(generation(&before), generation(&after));
        let (after, others) = later(&registry, USERS, &format!("bob:{hash}\n"));
        assert_eq!(generation(&before), generation(&after), "nothing has put others in place");
        let past = generation(&before);
        after.replace_users(others);
        assert!(generation(&before) == generation(&after) && generation(&after) != past);
        let (other, _) = later(&registry, &USERS.replace("eve", "ann"), "");
        assert_ne!(generation(&before), generation(&other));
        assert!(Arc::ptr_eq(&before.verifiers, &other.verifiers));
    }

    #[test]
    fn a_name_ends_at_the_first_colon() {
        let shown = |text: &str| {
            let value = format!("bAsIc  {}", BASE64_STANDARD.encode(text));
            let shown = Shown::parse(value.as_bytes())?;
            Some((shown.name().to_vec(), shown.password().to_vec()))
        };
        let pair = |name: &str, password: &str| Some((name.into(), password.into()));
        assert_eq!(shown("eve:a:b "), pair("eve", "a:b "));
        assert_eq!(shown(":"), pair("", ""));
        assert_eq!(shown("j\u{f6}rg:\u{e4}"), pair("j\u{f6}rg", "\u{e4}"));
        for text in ["eve", "", "eve:a\nb", "eve\0:a", &"a:".repeat(800)] {
            assert_eq!(shown(text), None, "{text:?}");
        }
        for value in ["Basic", "Basic ", "Basic !", "Basic ZTph\0", "BasicZTph", "Bearer ZTph"] {
            assert!(Shown::parse(value.as_bytes()).is_none(), "{value:?}");
        }
        assert!(Shown::parse(b"Basic ZTph").is_some());
        // There is one way to write each: padding and all.
        for value in ["Basic ZTphYg", "Basic ZTphYg=", "Basic ZTphYh==", "Basic ZTphYg== x"] {
            assert!(Shown::parse(value.as_bytes()).is_none(), "{value:?}");
        }
        assert!(Shown::parse(b"Basic ZTphYg==").is_some());
    }
}
