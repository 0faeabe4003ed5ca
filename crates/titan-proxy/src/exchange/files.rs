//! Responses with files.

use super::Exchange;
use crate::files::{FileBody, FileContent, FileResponse, Found, FoundFile, Site};
use crate::route::{Allow, Match};
use crate::template::Parts;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::SystemTime;
use titan_http::{BodyLength, FieldName, Method, ResponseHead, Status};
use titan_io::body::{Content, RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};

impl<B: RequestBody, S: ResponseSink> Exchange<'_, B, S> {
    /// Responses with the file that the path stands for, or with the page that says why not.
    pub(super) async fn send_file(&mut self, files: &Site, found: &Match) -> Result<(), Error> {
        if self.wants_tunnel() {
            return Err(Kind::UpgradeRefused.into());
        }
        let Err(error) = self.try_file(files, found).await else { return Ok(()) };
        let has_page = !self.sink.is_started() && self.record.dialect.is_none();
        match has_page.then(|| files.error_page(error.status())).flatten() {
            None => Err(error),
            Some((page, length, media_type)) => {
                self.worker.cells().count_failure(error);
                let mut head = self.error_head(error)?;
                let described = head.fields.append(FieldName::ContentType, media_type.as_bytes());
                described.map_err(|_| Kind::Internal)?;
                self.send_part(head, page, 0..length).await
            }
        }
    }

    async fn try_file(&mut self, files: &Site, found: &Match) -> Result<(), Error> {
        let methods = [Method::GET, Method::HEAD];
        if !methods.contains(&self.request.method) {
            self.record.allow = Some(Allow::of(methods));
            return Err(Kind::MethodNotAllowed.into());
        }
        match files.find(self.request, Parts::of(self.request, found).matched)? {
            Found::Directory => self.redirect_to_directory(found).await,
            Found::File(served) => self.send_served(files, *served).await,
        }
    }

    /// Relative links in a directory's index lead elsewhere without the slash. The client is sent to the path that it has
    /// asked for, whatever became of that since.
    async fn redirect_to_directory(&mut self, found: &Match) -> Result<(), Error> {
        let text = &mut *self.text;
        text.clear();
        text.extend_from_slice(found.path(self.request));
        text.push(b'/');
        if let Some(query) = self.request.query() {
            text.push(b'?');
            text.extend_from_slice(query);
        }
        let mut head = ResponseHead::with_status(Status::MOVED_PERMANENTLY);
        head.fields.append(FieldName::Location, text).map_err(|_| Kind::Internal)?;
        self.send(head, &[]).await
    }

    async fn send_served(&mut self, files: &Site, served: FoundFile<'_>) -> Result<(), Error> {
        let FileResponse { head, content } =
            files.reply(served, self.request, SystemTime::now())?;
        let bare = |declared| Content { length: BodyLength::None, declared };
        let (file, part) = match content {
            FileContent::None => return self.send_content(head, bare(None), &[]).await,
            FileContent::Declared(length) => {
                return self.send_content(head, bare(Some(length)), &[]).await;
            }
            FileContent::Beyond(length) => {
                self.record.length = Some(Box::new(length));
                return Err(Kind::BeyondFile.into());
            }
            FileContent::Part(file, part) => (file, part),
        };
        self.send_part(head, file, part).await
    }

    /// Sends that part of a file, as far as the method wants content.
    async fn send_part(
        &mut self,
        head: ResponseHead,
        file: OwnedFd,
        part: Range<u64>,
    ) -> Result<(), Error> {
        let length = part.end - part.start;
        if self.request.method == Method::HEAD {
            let content = Content { length: BodyLength::None, declared: Some(length) };
            return self.send_content(head, content, &[]).await;
        }
        let content = Content { length: BodyLength::Known(length), declared: None };
        let encoding = self.begin(head, content)?;
        let mut body = FileBody::new(file, part, &self.worker.io.buffers);
        self.send_source(&mut body, encoding).await
    }
}
