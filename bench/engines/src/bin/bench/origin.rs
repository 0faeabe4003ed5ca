//! The services that can stand behind the proxies. All send the same bodies.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use titan_bench::programs::go_build;

use crate::setup;

/// What every proxy of a run forwards to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Origin {
    /// The harness's own: as cheap as it can be, so that it limits no proxy.
    #[default]
    BuiltIn,
    /// A service on Shockwave, as stands behind a gateway in use.
    Shockwave,
    /// The harness's own in HTTP/2, wherever a proxy is to speak that upstream.
    #[value(skip)]
    Http2,
}

impl Origin {
    /// As on the command line and in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Shockwave => "shockwave",
            Self::Http2 => "built-in-h2",
        }
    }

    /// Its executable, in the folder of the harness's own programs.
    pub fn program(self, own: &Path) -> PathBuf {
        own.join(match self {
            Self::BuiltIn => "origin",
            Self::Shockwave => "origin-shockwave",
            Self::Http2 => "origin-h2",
        })
    }

    /// Whether it does its work already.
    pub fn answers(self, address: SocketAddr) -> bool {
        let answered = match self {
            Self::BuiltIn | Self::Shockwave => setup::answers_http1(address),
            Self::Http2 => setup::answers_http2(address),
        };
        answered.unwrap_or(false)
    }

    /// Builds it, unless cargo builds it with the rest of the harness.
    pub fn build(self, own: &Path) -> io::Result<()> {
        match self {
            Self::BuiltIn | Self::Http2 => Ok(()),
            Self::Shockwave => go_build("./origin", &self.program(own)),
        }
    }
}
