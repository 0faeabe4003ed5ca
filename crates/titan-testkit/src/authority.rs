//! An authority for tests that signs client certificates and revokes them.

use crate::certificate::{Certificate, trusting};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::sync::atomic::{AtomicU64, Ordering};
use time::{Duration, OffsetDateTime};

/// An authority. Its certificate is a PEM file; what it signs carries the certificates that lead to it.
pub struct Authority {
    /// Its certificate.
    pub cert: String,
    /// Its certificate and those of the authorities over it, without the first one.
    way: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate is to say of its owner.
#[derive(Clone, Copy)]
pub struct Owner<'o> {
    /// The parts of the subject: `O=Example`. An empty one has none.
    pub subject: &'o [&'o str],
    /// The alternative names: `dns:`, `uri:`, `email:` or `ip:` and a name.
    pub names: &'o [&'o str],
    /// The last year in which it is valid.
    pub until: i32,
    /// The seconds for which it is valid from now on, instead.
    pub seconds: Option<i64>,
    /// Whether it is for servers alone.
    pub is_server: bool,
}

impl Default for Owner<'_> {
    fn default() -> Self {
        Owner { subject: &["CN=client"], names: &[], until: LATE, seconds: None, is_server: false }
    }
}

const LATE: i32 = 2100;

/// A root authority.
pub fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().expect("there is randomness");
    let params = params_of_authority(name);
    let cert = params.self_signed(&key).expect("the parameters fit").pem();
    Authority { cert, way: String::new(), issuer: Issuer::new(params, key) }
}

impl Authority {
    /// An authority below it.
    pub fn authority(&self, name: &str) -> Authority {
        let key = KeyPair::generate().expect("there is randomness");
        let params = params_of_authority(name);
        let cert = params.signed_by(&key, &self.issuer).expect("the parameters fit").pem();
        Authority { way: format!("{cert}{}", self.way), cert, issuer: Issuer::new(params, key) }
    }

    /// A certificate for that owner, with its key.
    pub fn signs(&self, owner: Owner<'_>) -> Certificate {
        let key = KeyPair::generate().expect("there is randomness");
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for part in owner.subject {
            let (kind, value) = part.split_once('=').expect("a part has a kind");
            params.distinguished_name.push(kind_of(kind), value);
        }
        params.subject_alt_names = owner.names.iter().map(|name| alternative(name)).collect();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = match owner.seconds {
            Some(seconds) => OffsetDateTime::now_utc() + Duration::seconds(seconds),
            None => date_time_ymd(owner.until, 12, 31),
        };
        params.serial_number = Some(fresh_serial());
        params.extended_key_usages = vec![match owner.is_server {
            true => ExtendedKeyUsagePurpose::ServerAuth,
            false => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        let signed = params.signed_by(&key, &self.issuer).expect("the parameters fit");
        let serial = params.serial_number.expect("it was set");
        let cert = format!("{}{}", signed.pem(), self.way);
        Certificate::new(cert, key.serialize_pem(), signed.der().clone(), Some(serial))
    }

    /// What clients need that trust it, and no other.
    pub fn trusted(&self) -> ClientConfig {
        let root = CertificateDer::from_pem_slice(self.cert.as_bytes()).expect("it was made here");
        trusting(root, rustls::ALL_VERSIONS)
    }

    /// The list of the certificates that it has revoked, as PEM.
    pub fn revokes(&self, revoked: &[&Certificate]) -> String {
        self.revokes_until(revoked, LATE)
    }

    /// The same list where the next one is due in the first days of that year.
    pub fn revokes_until(&self, revoked: &[&Certificate], next: i32) -> String {
        let one = |certificate: &&Certificate| RevokedCertParams {
            serial_number: certificate.serial().expect("an authority has signed it").clone(),
            revocation_time: date_time_ymd(2001, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2001, 1, 1),
            next_update: date_time_ymd(next, 1, 2),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(one).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("the parameters fit");
        list.pem().expect("it can be written")
    }
}

fn params_of_authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2000, 1, 1);
    params.serial_number = Some(fresh_serial());
    params
}

fn fresh_serial() -> SerialNumber {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    SerialNumber::from(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn kind_of(kind: &str) -> DnType {
    match kind {
        "CN" => DnType::CommonName,
        "O" => DnType::OrganizationName,
        "OU" => DnType::OrganizationalUnitName,
        "C" => DnType::CountryName,
        "DC" => DnType::CustomDnType(vec![0, 9, 2342, 19_200_300, 100, 1, 25]),
        other => panic!("no kind {other}"),
    }
}

fn alternative(name: &str) -> SanType {
    let (kind, name) = name.split_once(':').expect("a name has a kind");
    let text = || name.try_into().expect("it is ASCII");
    match kind {
        "dns" => SanType::DnsName(text()),
        "uri" => SanType::URI(text()),
        "email" => SanType::Rfc822Name(text()),
        "ip" => SanType::IpAddress(name.parse().expect("it is an address")),
        other => panic!("no kind {other}"),
    }
}
