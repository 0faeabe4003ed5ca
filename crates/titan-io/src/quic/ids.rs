//! Connection ids that name the endpoint whose connection it is, so that a datagram finds it wherever it arrives: a client that has another
//! address than before is another one to the kernel.
//!
//! An id has five random bytes, two that show that it is one of this process, and one for the endpoint's place. The last three are masked
//! by a function of the first five that only this process knows: nobody else can tell which ids belong together (RFC 9000 section 5.1).

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Makes connection ids of one endpoint, and tells whose one is.
#[derive(Clone)]
pub(super) struct EndpointIds {
    key: Arc<HeaderProtectionKey>,
    /// Its place among those of the same address.
    place: u8,
}

const NONCE: usize = 5;
/// Bytes of a connection id.
pub(super) const LENGTH: usize = NONCE + 3;
/// What the mask is made of.
const SAMPLE: usize = 16;
const KEY: usize = 16;
/// Where a short header has its connection id (RFC 9000 section 17.3), and a long one the length of it (section 17.2).
pub(super) const SHORT_AT: usize = 1;
pub(super) const LONG_LENGTH_AT: usize = 5;
pub(super) const LONG: u8 = 0x80;

impl EndpointIds {
    /// Those of the endpoint at that place in this process. None where the system has no randomness for its key.
    pub(super) fn of_place(place: usize) -> Option<EndpointIds> {
        static KEY: LazyLock<Option<Arc<HeaderProtectionKey>>> = LazyLock::new(random_key);
        let key = KEY.clone()?;
        Some(EndpointIds { key, place: u8::try_from(place).unwrap_or(u8::MAX) })
    }

    /// The place whose connection a datagram is for, as far as its first packet tells: a client that begins has chosen an id itself.
    pub(super) fn place_of(&self, datagram: &[u8]) -> Option<usize> {
        let id = match datagram.first()? & LONG {
            0 => datagram.get(SHORT_AT..)?,
            _ if usize::from(*datagram.get(LONG_LENGTH_AT)?) != LENGTH => return None,
            _ => datagram.get(LONG_LENGTH_AT + 1..)?,
        };
        self.read(id.get(..LENGTH)?)
    }

    fn read(&self, id: &[u8]) -> Option<usize> {
        let (nonce, masked) = id.split_at_checked(NONCE)?;
        let [first, second, third] = self.mask(nonce)?;
        match masked {
            [one, two, masked] if (*one, *two) == (first, second) => {
                Some(usize::from(masked ^ third))
            }
            _ => None,
        }
    }

    fn mask(&self, nonce: &[u8]) -> Option<[u8; 3]> {
        let mut sample = [0; SAMPLE];
        sample.get_mut(..nonce.len())?.copy_from_slice(nonce);
        let [first, second, third, ..] = self.key.new_mask(&sample).ok()?;
        Some([first, second, third])
    }
}

impl ConnectionIdGenerator for EndpointIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        // An id without randomness would be one of all: the connection fails, and nothing else does.
        let _ = rand::fill(&mut id[..NONCE]);
        if let Some([first, second, third]) = self.mask(&id[..NONCE]) {
            id[NONCE..].copy_from_slice(&[first, second, third ^ self.place]);
        }
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.read(id).map(drop).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn random_key() -> Option<Arc<HeaderProtectionKey>> {
    let mut key = [0; KEY];
    rand::fill(&mut key).ok()?;
    HeaderProtectionKey::new(&AES_128, &key).ok().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_place_and_no_two_are_alike() {
        let mut last = Vec::new();
        for place in (0..256).cycle().take(1000) {
            let mut ids = EndpointIds::of_place(place).unwrap();
            let id = ids.generate_cid();
            let short = [&[0x40], &id[..], b"rest"].concat();
            let long = [&[0xe0, 0, 0, 0, 1, 8], &id[..], b"rest"].concat();
            assert_eq!((ids.place_of(&short), ids.place_of(&long)), (Some(place), Some(place)));
            assert!((0..9).all(|end| ids.place_of(&short[..end]).is_none()));
            assert!(ids.validate(&id).is_ok());
            assert_ne!(last[..], id[..]);
            last = id.to_vec();
        }
    }

    #[test]
    fn ids_of_others_name_nobody() {
        let ids = EndpointIds::of_place(1).unwrap();
        let mut other = EndpointIds { key: random_key().unwrap(), place: 1 };
        let found = (0..1000).filter(|_| {
            let id = other.generate_cid();
            ids.place_of(&[&[0x40], &id[..]].concat()).is_some()
        });
        assert!(found.count() <= 2, "one in 65,536");
        assert_eq!(ids.place_of(&[0xc0, 0, 0, 0, 1, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
        assert_eq!(ids.place_of(&[]), None);
    }
}
