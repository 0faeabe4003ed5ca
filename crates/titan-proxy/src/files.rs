//! Files from a directory: which file a request gets, and the head of its response.
//!
//! | | |
//! |---|---|
//! | `name` | the name of the file that a path stands for |
//! | `disk` | opening it, without leaving the root |
//! | `condition`, `range` | what of it is sent |
//! | `media` | what it is |
//! | `body` | its bytes |

mod body;
mod condition;
mod disk;
mod media;
mod name;
mod range;

pub(crate) use body::FileBody;
pub(crate) use disk::check_root;

use crate::template::after_segments;
use condition::{Validators, Verdict};
use disk::{Lookup, OpenFile, Root};
use range::RequestedRange;
use std::borrow::Cow;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use titan_config::{HeaderValue, PathEnd, PathPattern, StaticFiles};
use titan_http::coding::{Accepted, Coding};
use titan_http::{BadField, FieldName, Method, RequestHead, ResponseHead, Status};
use titan_io::error::{Error, Kind};

/// A directory whose files a route responds with.
pub(crate) struct Site {
    config: StaticFiles,
    root: PathBuf,
    /// How many segments of a path are no part of a file's name.
    segments: usize,
}

/// What a request gets.
pub(crate) enum Found<'s> {
    /// What has this name is a directory, whose name ends with a slash.
    Directory,
    /// A file.
    File(Box<FoundFile<'s>>),
}

/// A file as the response to a request, before anything is decided about conditions and parts.
pub(crate) struct FoundFile<'s> {
    file: OpenFile,
    coding: Option<Coding>,
    media_type: Cow<'s, str>,
    /// The `Cache-Control` of responses.
    cache_control: Option<&'s HeaderValue>,
}

/// What is to be sent.
pub(crate) struct FileResponse {
    pub(crate) head: ResponseHead,
    /// What goes with the head.
    pub(crate) content: FileContent,
}

/// The content of a response with a file.
pub(crate) enum FileContent {
    /// There is none, and none is declared.
    None,
    /// There is none, and its length is declared.
    Declared(u64),
    /// That part of the file.
    Part(OwnedFd, Range<u64>),
    /// The part that is wanted is not among this many bytes.
    Beyond(u64),
}

impl Site {
    /// The files for a route with that path. A relative root starts at `folder`.
    pub(crate) fn new(config: &StaticFiles, path: &PathPattern, folder: &Path) -> Site {
        let is_stripped = config.strip_prefix && path.end == PathEnd::Prefix;
        let segments = if is_stripped { path.segments.len() } else { 0 };
        Site { config: config.clone(), root: folder.join(&config.root), segments }
    }

    /// Finds the file for a request, which has come for the path `matched`.
    pub(crate) fn find(&self, request: &RequestHead, matched: &[u8]) -> Result<Found<'_>, Error> {
        let Plan { name, is_directory } = self.plan(request.path()).ok_or(Kind::NoFile)?;
        // Whom a redirect to a slash could only send in circles gets what it would lead to.
        let is_directory = is_directory || matched.ends_with(b"/");
        let root = Root::open(&self.root)?;
        let found = match is_directory {
            true => self.find_index(&root, &name)?,
            false => match root.find(&name)? {
                Lookup::File(file) => Some((name.clone(), file)),
                Lookup::Directory => return Ok(Found::Directory),
                Lookup::Nothing => None,
            },
        };
        let found = match found {
            None => self.find_fallback(&root, &name)?,
            found => found,
        };
        let (name, file) = found.ok_or(Kind::NoFile)?;
        Ok(self.serve(&root, &name, file, request))
    }

    /// Which file would be opened, without opening it.
    pub(crate) fn plan(&self, path: &[u8]) -> Option<Plan> {
        let below = match path.starts_with(b"/") {
            true => after_segments(path, self.segments),
            false => return None,
        };
        let name = name::of_path(below, self.config.dotfiles)?;
        Some(Plan { name, is_directory: below.ends_with(b"/") })
    }

    /// How a file with that name is described.
    pub(crate) fn media_type(&self, name: &[u8]) -> Cow<'_, str> {
        let ending = media::ending(name);
        let configured = self.config.types.iter().find(|(known, _)| *known == ending);
        configured.map_or_else(|| media::of_ending(&ending), |(_, value)| value.as_str().into())
    }

    pub(crate) fn config(&self) -> &StaticFiles {
        &self.config
    }

    /// The first file that stands for a directory, with its name.
    fn find_index(&self, root: &Root, name: &[u8]) -> Result<Option<(Vec<u8>, OpenFile)>, Error> {
        for index in &self.config.index {
            let name = join(name, index.as_bytes());
            if let Lookup::File(file) = root.find(&name)? {
                return Ok(Some((name, file)));
            }
        }
        Ok(None)
    }

    /// The file that stands for what is not there, with its name.
    fn find_fallback(
        &self,
        root: &Root,
        name: &[u8],
    ) -> Result<Option<(Vec<u8>, OpenFile)>, Error> {
        let Some(fallback) = self.fallback(name) else { return Ok(None) };
        match root.find(fallback.as_bytes())? {
            Lookup::File(file) => Ok(Some((fallback.as_bytes().to_vec(), file))),
            Lookup::Directory | Lookup::Nothing => Ok(None),
        }
    }

    /// The name of the file that would stand for one that is not there.
    pub(crate) fn fallback(&self, name: &[u8]) -> Option<&str> {
        let is_asset = !media::ending(name).is_empty() && self.media_type(name) != media::UNKNOWN;
        self.config.fallback.as_deref().filter(|_| !is_asset)
    }

    /// The file, or the precompressed one next to it in the coding that the client prefers.
    fn serve(&self, root: &Root, name: &[u8], file: OpenFile, request: &RequestHead) -> Found<'_> {
        let media_type = self.media_type(name);
        let mut rules = self.config.cache_rules.iter();
        let rule = rules.find(|rule| rule.fits(name, &media_type)).map(|rule| &rule.value);
        let cache_control = rule.or(self.config.cache_control.as_ref());
        let found = |file, coding| {
            Found::File(Box::new(FoundFile { file, coding, media_type, cache_control }))
        };
        let accepted = Accepted::of(&request.fields);
        let mut codings = self.config.precompressed.clone();
        while let Some(coding) = accepted.choose(&codings).coding {
            let beside = [name, ending(coding)].concat();
            if let Ok(Lookup::File(file)) = root.find(&beside) {
                return found(file, Some(coding));
            }
            codings.retain(|it| *it != coding);
        }
        found(file, None)
    }

    /// The page that is sent for a failure with that status, and its media type.
    pub(crate) fn error_page(&self, status: Status) -> Option<(OwnedFd, u64, Cow<'_, str>)> {
        let (_, name) = self.config.error_pages.iter().find(|(known, _)| *known == status)?;
        match Root::open(&self.root).ok()?.find(name.as_bytes()).ok()? {
            Lookup::File(OpenFile { fd, length, .. }) => {
                Some((fd, length, self.media_type(name.as_bytes())))
            }
            Lookup::Directory | Lookup::Nothing => None,
        }
    }

    /// What of a file goes out, under the conditions of a request of GET or HEAD.
    pub(crate) fn reply(
        &self,
        served: FoundFile<'_>,
        request: &RequestHead,
        now: SystemTime,
    ) -> Result<FileResponse, Error> {
        let FoundFile { file, coding, media_type, cache_control } = served;
        let OpenFile { fd, length, .. } = file;
        let tag = file.state.tag(coding);
        let modified = file.state.modified(now);
        let validators = Validators { tag: tag.as_bytes(), modified };
        let verdict = condition::judge(request.method, &request.fields, validators, now);
        let wanted = match verdict {
            Verdict::Failed => return Err(Kind::PreconditionFailed.into()),
            Verdict::Go => range::wanted(&request.fields, length),
            Verdict::GoWhole | Verdict::Same => RequestedRange::Whole,
        };
        let (status, content) = match wanted {
            _ if verdict == Verdict::Same => (Status::NOT_MODIFIED, FileContent::None),
            _ if request.method == Method::HEAD => (Status::OK, FileContent::Declared(length)),
            RequestedRange::Whole => (Status::OK, FileContent::Part(fd, 0..length)),
            RequestedRange::Part(part) => (Status::PARTIAL_CONTENT, FileContent::Part(fd, part)),
            RequestedRange::Beyond => (Status::RANGE_NOT_SATISFIABLE, FileContent::Beyond(length)),
        };
        let mut head = ResponseHead::with_status(status);
        let mut written = self.write_validators(&mut head, validators, cache_control);
        if status != Status::NOT_MODIFIED {
            written = written.and_then(|()| describe(&mut head, &media_type, coding));
        }
        if let (Status::PARTIAL_CONTENT, FileContent::Part(_, part)) = (status, &content) {
            let value = format!("bytes {}-{}/{length}", part.start, part.end - 1);
            let value = value.as_bytes();
            written = written.and_then(|()| head.fields.append(FieldName::ContentRange, value));
        }
        written.map_err(|_| Kind::Internal)?;
        Ok(FileResponse { head, content })
    }

    /// The fields that are the same where the client has the file already.
    fn write_validators(
        &self,
        head: &mut ResponseHead,
        validators: Validators<'_>,
        cache_control: Option<&HeaderValue>,
    ) -> Result<(), BadField> {
        let fields = &mut head.fields;
        fields.append_named(b"ETag", validators.tag)?;
        if let Some(modified) = validators.modified {
            let date = httpdate::fmt_http_date(modified);
            fields.append_named(b"Last-Modified", date.as_bytes())?;
        }
        if let Some(value) = cache_control {
            fields.append(FieldName::CacheControl, value.as_str().as_bytes())?;
        }
        if !self.config.precompressed.is_empty() {
            fields.append(FieldName::Vary, b"Accept-Encoding")?;
        }
        Ok(())
    }
}

/// What a path stands for.
pub(crate) struct Plan {
    /// Below the root; empty for the root itself.
    pub(crate) name: Vec<u8>,
    /// Whether it is the name of a directory, with its slash.
    pub(crate) is_directory: bool,
}

/// A name in a directory, which may be the root.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

fn describe(
    head: &mut ResponseHead,
    media_type: &str,
    coding: Option<Coding>,
) -> Result<(), BadField> {
    head.fields.append(FieldName::ContentType, media_type.as_bytes())?;
    if let Some(coding) = coding {
        let coding = coding.name();
        head.fields.append(FieldName::ContentEncoding, coding.as_bytes())?;
    }
    head.fields.append_named(b"Accept-Ranges", b"bytes")
}

/// What the name of a file in a coding ends with.
pub(crate) fn ending(coding: Coding) -> &'static [u8] {
    match coding {
        Coding::Gzip => b".gz",
        Coding::Brotli => b".br",
        Coding::Zstd => b".zst",
    }
}
