//! Who a client is, according to its certificate; and how an upstream learns of it (RFC 9440).

use super::credentials::certificates_in;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::CertificateDer;
use std::fmt::Write;
use std::net::IpAddr;
use titan_config::CertificatePart;
use x509_parser::asn1_rs::ToDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// What a certificate says of its owner. The creator of this value has verified the certificate.
#[derive(Debug)]
pub struct Identity {
    subject: Box<str>,
    /// The alternative names of the kinds that conditions know.
    names: Box<[(CertificatePart, Box<str>)]>,
    /// SHA-256 in hexadecimal digits.
    fingerprint: Box<str>,
    /// The certificate, and behind it those that were sent with it.
    chain: Box<[CertificateDer<'static>]>,
}

impl Identity {
    /// What the first certificate of a chain says.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Result<Identity, String> {
        let leaf = chain.first().ok_or("there is no certificate")?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| error.to_string())?;
        let extension = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = extension.iter().flat_map(|extension| &extension.value.general_names);
        let (subject, names) = (distinguished(parsed.subject()), names.filter_map(name).collect());
        let (subject, fingerprint) = (subject.into(), hex(&sha256(leaf)).into());
        Ok(Identity { subject, names, fingerprint, chain: chain.into() })
    }

    /// The same for what a PEM file holds.
    pub fn of_pem(bytes: &[u8]) -> Result<Identity, String> {
        Identity::new(certificates_in(bytes)?)
    }

    /// What it says of that part, each once.
    pub fn values(&self, part: CertificatePart) -> impl Iterator<Item = &str> {
        let only = match part {
            CertificatePart::Subject => Some(&self.subject),
            CertificatePart::Any | CertificatePart::Fingerprint => Some(&self.fingerprint),
            _ => None,
        };
        let names = self.names.iter().filter(move |(kind, _)| *kind == part).map(|(_, name)| name);
        only.into_iter().chain(names).map(|text| &**text)
    }

    /// The certificate, and behind it those that were sent with it.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Makes `out` the value of `Client-Cert`.
    pub fn write_leaf(&self, out: &mut Vec<u8>) {
        out.clear();
        write_item(&self.chain[0], out);
    }

    /// Makes `out` the value of `Client-Cert-Chain`; empty where nothing was sent with the certificate.
    pub fn write_rest(&self, out: &mut Vec<u8>) {
        out.clear();
        for (index, certificate) in self.chain[1..].iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"" } else { b", " });
            write_item(certificate, out);
        }
    }
}

/// A digest to know bytes by.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().expect("it is a suite of TLS 1.3");
    let digest = suite.common.hash_provider.hash(bytes);
    digest.as_ref().try_into().expect("the hash of this suite is SHA-256")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

fn name(name: &GeneralName<'_>) -> Option<(CertificatePart, Box<str>)> {
    Some(match name {
        GeneralName::DNSName(name) => (CertificatePart::Dns, name.to_ascii_lowercase().into()),
        GeneralName::URI(uri) => (CertificatePart::Uri, (*uri).into()),
        GeneralName::RFC822Name(address) => (CertificatePart::Email, (*address).into()),
        GeneralName::IPAddress(bytes) => (CertificatePart::Ip, address(bytes)?.to_string().into()),
        _ => return None,
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// A name as RFC 2253 writes it: the last part first, and nothing in it that could be taken for another part.
fn distinguished(name: &X509Name<'_>) -> String {
    let together =
        |texts: Vec<String>, with: &str| texts.into_iter().rev().collect::<Vec<_>>().join(with);
    // Parts of one rank have no order; that of openssl is the one that people copy.
    let parts = name.iter_rdn().map(|part| together(part.iter().map(attribute).collect(), "+"));
    together(parts.collect(), ",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let known = ATTRIBUTES.iter().find(|(known, _)| *known == oid);
    match (known, attribute.as_str()) {
        (Some((_, name)), Ok(text)) => format!("{name}={}", escaped(text)),
        // The encoding stands for what has no name or is no text.
        (known, _) => {
            let name = known.map_or(oid.as_str(), |(_, name)| name);
            let encoding = attribute.attr_value().to_der_vec().unwrap_or_default();
            format!("{name}=#{}", hex(&encoding))
        }
    }
}

/// The names of attributes that are written: those of RFC 2253, and two that certificates often have.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("2.5.4.5", "serialNumber"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// A value as RFC 2253 section 2.4 writes it; control characters as their bytes.
fn escaped(value: &str) -> String {
    let last = value.len().saturating_sub(1);
    let mut text = String::with_capacity(value.len());
    for (at, character) in value.char_indices() {
        match character {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => text.extend(['\\', character]),
            '#' if at == 0 => text.push_str("\\#"),
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            '\0'..=' ' | '\x7f' if character != ' ' => {
                write!(text, "\\{:02X}", u32::from(character)).expect("a String takes everything");
            }
            _ => text.push(character),
        }
    }
    text
}

/// A sequence of bytes as structured fields have it (RFC 8941 section 3.3.5).
fn write_item(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b':');
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { digit } else { b'=' });
        }
    }
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_an_item() {
        let cases = [
            ("", "::"),
            ("f", ":Zg==:"),
            ("fo", ":Zm8=:"),
            ("foo", ":Zm9v:"),
            ("foob", ":Zm9vYg==:"),
            ("\u{3ff}\u{3ff}", ":z7/Pvw==:"),
        ];
        for (bytes, item) in cases {
            let mut out = Vec::new();
            write_item(bytes.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), item);
        }
    }

    #[test]
    fn no_value_looks_like_two() {
        let cases = [
            ("a,O=b", "a\\,O=b"),
            ("a+b", "a\\+b"),
            ("#a#", "\\#a#"),
            (" a b ", "\\ a b\\ "),
            (" ", "\\ "),
            ("a\0b\n\x7f", "a\\00b\\0A\\7F"),
            ("\"<>;\\", "\\\"\\<\\>\\;\\\\"),
            ("Zoë", "Zoë"),
        ];
        for (value, text) in cases {
            assert_eq!(escaped(value), text);
        }
    }

    #[test]
    fn a_digest_is_that_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), abc);
    }
}
