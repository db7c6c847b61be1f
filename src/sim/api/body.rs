//! Bodies of answers: one text, or a stream of lines.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;
use hyper::body::{Bytes, Frame, SizeHint};

/// Lines of a watch, as they come.
type Lines = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer of the model.
pub struct Body(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Lines(Lines),
}

impl Body {
    /// A body that is there as a whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into()).filter(|bytes| !bytes.is_empty())))
    }

    pub(super) fn lines(lines: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Inner::Lines(Box::pin(lines)))
    }

    /// Whether it is a stream, so that it may be cut.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Lines(_))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("is_stream", &self.is_stream()).finish_non_exhaustive()
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take()),
            Inner::Lines(lines) => lines.as_mut().poll_next(cx),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Inner::Lines(_) => SizeHint::default(),
        }
    }
}
