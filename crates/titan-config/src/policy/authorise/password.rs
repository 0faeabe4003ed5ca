//! Password hashes: Argon2id (RFC 9106) and bcrypt.

use super::keys::lines_of;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use std::collections::HashSet;
use std::fmt;

/// A user with a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Without colons and control characters.
    pub name: String,
    /// What is left of the password here.
    pub hash: PasswordHash,
}

/// The hash of a password, at a cost that is bounded. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordHash {
    /// Argon2id, version 0x13.
    Argon2id {
        /// Memory in KiB.
        memory: u32,
        /// How often that is gone through.
        passes: u32,
        /// How many could go through it side by side.
        lanes: u32,
        /// The salt.
        salt: Vec<u8>,
        /// What comes of it.
        output: Vec<u8>,
    },
    /// bcrypt.
    Bcrypt {
        /// The logarithm of the rounds.
        cost: u32,
        /// The salt.
        salt: [u8; 16],
        /// What comes of it.
        output: [u8; 23],
    },
}

impl PasswordHash {
    /// Reads the form of either that other programs write: `$argon2id$v=19$...` (PHC), `$2b$...`.
    pub fn parse(text: &str) -> Result<PasswordHash, String> {
        let mut parts = text.strip_prefix('$').unwrap_or_default().split('$');
        match parts.next().unwrap_or_default() {
            "argon2id" => argon2id(&parts.collect::<Vec<_>>()),
            "2a" | "2b" | "2y" => bcrypt(&parts.collect::<Vec<_>>()),
            kind => Err(format!("{}: {HOW}", unknown(kind, text))),
        }
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordHash::Argon2id { memory, passes, lanes, .. } => {
                write!(f, "Argon2id(m={memory},t={passes},p={lanes})")
            }
            PasswordHash::Bcrypt { cost, .. } => write!(f, "Bcrypt({cost})"),
        }
    }
}

/// The users of a file as `htpasswd` writes it: lines of a name, a colon and a hash. Empty ones and those that begin
/// with `#` do not count. There may be none: when its last line is removed, that user must not stay valid.
pub fn users_in(bytes: &[u8]) -> Result<Vec<User>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let mut names = HashSet::new();
    lines_of(text, |line| {
        let (name, hash) = line.split_once(':').ok_or("there is no colon after a name")?;
        let name = parse_user(name)?;
        let hash = PasswordHash::parse(hash)?;
        if !names.insert(name.clone()) {
            return Err(format!("`{name}` is already in an earlier line"));
        }
        match names.len() > MAX_USERS {
            true => Err(format!("there are more than {MAX_USERS} users")),
            false => Ok(User { name, hash }),
        }
    })
}

/// The name of a user (RFC 7617 section 2).
pub(super) fn parse_user(text: &str) -> Result<String, String> {
    let is_fine = |letter: char| letter != ':' && !letter.is_control();
    match text {
        "" => Err("the name is empty".to_owned()),
        text if text.len() > MAX_USER => Err(format!("the name has more than {MAX_USER} bytes")),
        text if !text.chars().all(is_fine) => {
            Err("a name cannot contain colons or control characters".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

/// Users of a policy, in its file and in the configuration each.
pub(super) const MAX_USERS: usize = 10_000;
/// Bytes of a name.
pub(super) const MAX_USER: usize = 256;
/// Memory that the check of one password may take, in KiB.
const MAX_MEMORY: u32 = 64 << 10;
/// The work that the check of one password may be, in KiB that are gone through.
const MAX_WORK: u64 = 256 << 10;
const MAX_LANES: u32 = 16;
/// Some 1.5 s.
const MAX_COST: u32 = 14;
const MIN_COST: u32 = 4;
/// What makes hashes that are taken.
const HOW: &str = "use `htpasswd -nB NAME` or `argon2 SALT -id -e` to make one";

/// What a text is that is none of the hashes that are taken. It may be a password, and is not repeated.
fn unknown(kind: &str, text: &str) -> &'static str {
    match kind {
        "apr1" | "1" => "it is an MD5 hash, which is too easy to crack",
        "5" | "6" => "it is a SHA-2 hash, which is too fast to resist guessing",
        "argon2i" | "argon2d" => "it is Argon2, but not Argon2id",
        "2x" => "it was made by a bcrypt implementation with a known bug",
        _ if text.starts_with("{SHA}") => "it is a SHA-1 hash, which is too easy to crack",
        _ => "it is not a bcrypt or Argon2id hash",
    }
}

fn argon2id(parts: &[&str]) -> Result<PasswordHash, String> {
    let [version, costs, salt, output] = parts else {
        return Err(
            "it does not have the form `$argon2id$v=19$m=..,t=..,p=..$SALT$HASH`".to_owned()
        );
    };
    if *version != "v=19" {
        return Err("its Argon2 version is not 19".to_owned());
    }
    let [memory, passes, lanes] = costs_of(costs).ok_or("its costs are not `m=..,t=..,p=..`")?;
    if lanes == 0 || lanes > MAX_LANES || passes == 0 || memory < 8 * lanes {
        return Err(format!(
            "its costs are outside what Argon2 allows, or `p` exceeds {MAX_LANES}"
        ));
    }
    if memory > MAX_MEMORY || u64::from(memory) * u64::from(passes) > MAX_WORK {
        return Err(format!(
            "checking it would cost too much: `m` may be at most {MAX_MEMORY}, and `m` times `t` \
                at most {MAX_WORK}; make a new hash with m=19456,t=2,p=1"
        ));
    }
    let decode = |text: &str| PHC.decode(text).ok();
    let salt = decode(salt).filter(|salt| (8..=64).contains(&salt.len()));
    let salt = salt.ok_or("its salt is not base64 of 8 to 64 bytes without `=`")?;
    let output = decode(output).filter(|output| (16..=64).contains(&output.len()));
    let output = output.ok_or("its last part is not base64 of 16 to 64 bytes without `=`")?;
    Ok(PasswordHash::Argon2id { memory, passes, lanes, salt, output })
}

/// The numbers of `m=..,t=..,p=..`.
fn costs_of(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(',');
    let mut cost = |name: &str| number(parts.next()?.strip_prefix(name)?);
    let costs = [cost("m=")?, cost("t=")?, cost("p=")?];
    parts.next().is_none().then_some(costs)
}

fn bcrypt(parts: &[&str]) -> Result<PasswordHash, String> {
    let [cost, rest] = parts else {
        return Err("it does not have the form `$2b$COST$SALT AND HASH`".to_owned());
    };
    let cost =
        number(cost).filter(|_| cost.len() == 2).ok_or("its cost is not a number of 2 digits")?;
    if !(MIN_COST..=MAX_COST).contains(&cost) {
        return Err(format!(
            "its cost is {cost}; costs from {MIN_COST} to {MAX_COST} are accepted"
        ));
    }
    let halves = rest.split_at_checked(22);
    let decoded = halves.and_then(|(salt, output)| {
        let salt = BCRYPT.decode(salt).ok()?.try_into().ok()?;
        Some((salt, BCRYPT.decode(output).ok()?.try_into().ok()?))
    });
    let (salt, output) =
        decoded.ok_or("the salt and hash after its cost are not 53 bytes of bcrypt's base64")?;
    Ok(PasswordHash::Bcrypt { cost, salt, output })
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

const PHC: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
/// Some programs leave bits of the last letter set that stand for nothing.
const BCRYPT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
mod tests {
    use super::*;

    const ARGON2: &str =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
    const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

    #[test]
    fn hashes_are_read_as_other_programs_write_them() {
        let PasswordHash::Argon2id { memory, passes, lanes, salt, output } =
            PasswordHash::parse(ARGON2).unwrap()
        else {
            panic!("an Argon2id")
        };
        assert_eq!((memory, passes, lanes, salt.as_slice()), (256, 2, 1, &b"somesalt"[..]));
        assert_eq!(output.len(), 32);
        for kind in ["2a", "2b", "2y"] {
            let text = BCRYPT.replace("2b", kind);
            let hash = PasswordHash::parse(&text).unwrap();
            assert!(matches!(hash, PasswordHash::Bcrypt { cost: 4, .. }), "{kind}");
            assert_eq!(format!("{hash:?}"), "Bcrypt(4)");
        }
    }

    #[test]
    fn what_costs_too_much_or_is_no_hash_is_refused() {
        let with = |from: &str, to: &str| ARGON2.replace(from, to);
        for text in [
            String::new(),
            "secret".to_owned(),
            "$apr1$abc$def".to_owned(),
            "{SHA}abc".to_owned(),
            "$2x$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW".to_owned(),
            BCRYPT.replace("$04$", "$15$"),
            BCRYPT.replace("$04$", "$03$"),
            BCRYPT.replace("$04$", "$4$"),
            BCRYPT.replace("$04$", "$+4$"),
            BCRYPT.replace("IrW", "Ir"),
            BCRYPT.replace("IrW", "Ir\u{e4}"),
            format!("{BCRYPT}$"),
            with("argon2id", "argon2i"),
            with("v=19", "v=16"),
            with("m=256", "m=65537"),
            with("m=256,t=2", "m=65536,t=5"),
            with("t=2", "t=0"),
            with("t=2", "t=4294967296"),
            with("p=1", "p=0"),
            with("p=1", "p=33"),
            with("m=256,t=2,p=1", "t=2,m=256,p=1"),
            with("p=1", "p=1,x=1"),
            with("c29tZXNhbHQ", "c29t"),
            with("i/4", "i/4="),
            format!("{ARGON2}$"),
        ] {
            let refused = PasswordHash::parse(&text).unwrap_err();
            assert!(!refused.is_empty() && !refused.contains("secret"), "{text}");
        }
        assert!(PasswordHash::parse(&with("m=256,t=2", "m=65536,t=4")).is_ok());
    }

    #[test]
    fn a_file_has_a_line_for_each_user() {
        let text = format!("# staff\n\n eve:{BCRYPT} \r\nj\u{f6}rg:{ARGON2}\n");
        let users = users_in(text.as_bytes()).unwrap();
        let names: Vec<_> = users.iter().map(|user| user.name.as_str()).collect();
        assert_eq!(names, ["eve", "j\u{f6}rg"]);
        for (text, reason) in [
            ("eve".to_owned(), "line 1: there is no colon"),
            (format!(":{BCRYPT}"), "line 1: the name is empty"),
            (format!("eve:{BCRYPT}\neve:{BCRYPT}"), "line 2: `eve` is already in an earlier line"),
            ("\neve:secret".to_owned(), "line 2: it is not a bcrypt or Argon2id hash"),
            ("eve:$apr1$a$b".to_owned(), "line 1: it is an MD5 hash"),
        ] {
            let refused = users_in(text.as_bytes()).unwrap_err();
            assert!(refused.starts_with(reason) && !refused.contains("secret"), "{refused}");
        }
        assert!(users_in(b"\xff:").is_err());
        assert_eq!(users_in(b"# eve").map(|users| users.len()), Ok(0));
    }
}
