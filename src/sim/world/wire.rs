//! The connection of one process to the API server: a tower service under its `kube::Client`.
//!
//! A request is carried out by a task of the world, not of the process: what was sent lands, though its
//! sender is frozen or dead by then.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response, request::Parts};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::client::Body as RequestBody;
use serde_json::Value;
use tokio::{sync::oneshot, time::sleep};
use tower::Service;

use super::{
    call::{Action, Call},
    faults::Effect,
    net::{Arrival, Flow},
    shared::{Origin, Shared},
    story::{Down, Refused, What},
};
use crate::{
    api::FENCE_MESSAGE,
    sim::api::{Body, Refusal, Server},
};

/// Sent by a connection that broke.
type Broken = tower::BoxError;

/// How long a sender waits whom nobody answers, at the longest: the socket's read timeout of the
/// production clients for work. Callers have shorter deadlines of their own.
const SILENCE: Duration = Duration::from_secs(35);

/// The connection.
#[derive(Clone)]
pub(super) struct Wire {
    shared: Arc<Shared>,
    origin: Origin,
    server: Server,
    /// As whom it writes.
    by: Arc<str>,
}

impl Wire {
    pub(super) fn new(shared: Arc<Shared>, origin: Origin, server: Server) -> Self {
        let by = format!("r{}", origin.replica).into();
        Self { shared, origin, server, by }
    }
}

impl Service<Request<RequestBody>> for Wire {
    type Response = Response<Gated>;
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Self::Response, Broken>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (answer, answered) = oneshot::channel();
        tokio::spawn(Journey { wire: self.clone() }.carry(request, answer));
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(reset())) })
    }
}

fn reset() -> Broken {
    "connection reset".into()
}

/// One request on its way.
struct Journey {
    wire: Wire,
}

type Answer = oneshot::Sender<Result<Response<Gated>, Broken>>;

/// What a request carries; bytes, so that it can be delivered twice.
struct Parcel {
    parts: Parts,
    body: Bytes,
}

impl Parcel {
    fn request(&self) -> Request<RequestBody> {
        Request::from_parts(self.parts.clone(), RequestBody::from(self.body.clone()))
    }
}

impl Journey {
    fn shared(&self) -> &Shared {
        &self.wire.shared
    }

    async fn carry(self, request: Request<RequestBody>, answer: Answer) {
        let call = Call::of(self.wire.origin.replica, &request);
        let (parts, body) = request.into_parts();
        // A client's bodies are bytes that are there already.
        let body = body.collect_bytes().await.unwrap_or_default();
        let parcel = Parcel { parts, body };
        let Some(call) = call else {
            let response = self.wire.server.serve(&self.wire.by, parcel.request()).await;
            let _ = answer.send(Ok(response.map(Gated::open)));
            return;
        };
        let (number, way) = self.shared().set_out(&call);
        sleep(way).await;
        let outcome = self.arrive(&call, parcel, number).await;
        self.shared().settled(number);
        match outcome {
            Outcome::Answer(response) => {
                let _ = answer.send(Ok(response));
            }
            Outcome::Broken => {
                let _ = answer.send(Err(reset()));
            }
            Outcome::Silence => {
                sleep(SILENCE).await;
                drop(answer);
            }
        }
    }

    async fn arrive(&self, call: &Call, parcel: Parcel, number: u64) -> Outcome {
        let effect = match self.shared().arrive(call) {
            Arrival::Served => None,
            Arrival::Struck(effect, name) => {
                self.shared().struck(call, &effect, &name);
                Some(effect)
            }
        };
        match &effect {
            Some(Effect::LoseRequest { silent }) => return Outcome::lost(*silent),
            Some(Effect::Refuse { code, committed: false }) => {
                return self.refuse(*code, call, number).await;
            }
            Some(Effect::CrashBefore) => {
                self.crash(&format!("before its {} arrives", call.sort()));
                return Outcome::Silence;
            }
            Some(Effect::Delay { by }) => {
                self.shared().settled(number);
                sleep(*by).await;
            }
            Some(Effect::Hold) => {
                self.shared().settled(number);
                self.shared().wait_through().await;
            }
            Some(Effect::Duplicate { after }) => self.deliver_again(call, &parcel, *after),
            _ => {}
        }
        let response = self.serve(call, &parcel).await;
        match effect {
            Some(Effect::LoseResponse { silent }) => return Outcome::lost(silent),
            Some(Effect::Refuse { code, committed: true }) => {
                return self.refuse(code, call, number).await;
            }
            Some(Effect::CrashAfter) => {
                self.crash(&format!("before it sees the answer to its {}", call.sort()));
                return Outcome::Silence;
            }
            Some(Effect::Freeze { lasting }) => {
                self.shared().freeze_for(&self.wire.origin, lasting);
            }
            Some(Effect::CutOff { lasting }) => self.shared().cut_off_for(call.replica, lasting),
            _ => {}
        }
        self.depart(call, response, number).await
    }

    /// Brings the answer back.
    async fn depart(&self, call: &Call, response: Response<Body>, number: u64) -> Outcome {
        sleep(self.shared().way()).await;
        if let Err((name, silent)) = self.shared().depart(call) {
            self.shared().struck(call, &Effect::LoseResponse { silent }, name);
            return Outcome::lost(silent);
        }
        let gated = |body| match call.action {
            Action::Watch => Gated::new(Arc::clone(&self.wire.shared), call.replica, number, body),
            _ => Gated::open(body),
        };
        Outcome::Answer(response.map(gated))
    }

    async fn refuse(&self, code: u16, call: &Call, number: u64) -> Outcome {
        let refusal = match code {
            409 => Refusal::modified(&call.key),
            429 => Refusal::too_many_requests(1),
            503 => Refusal::unavailable(),
            504 => {
                Refusal::new(504, "Timeout", "the request did not complete in the time allotted")
            }
            code => {
                Refusal::new(code, "InternalError", "an internal error, as the simulation wants")
            }
        };
        self.depart(call, self.wire.server.refuse(&refusal), number).await
    }

    /// Carries the request out; whatever is refused is told.
    async fn serve(&self, call: &Call, parcel: &Parcel) -> Response<Body> {
        let response = self.wire.server.serve(&self.wire.by, parcel.request()).await;
        self.shared().served(call, response.status().as_u16());
        if !call.is_write() || response.status().is_success() {
            return response;
        }
        let (parts, body) = response.into_parts();
        let bytes = whole(body).await;
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let sentence = text("message");
        self.shared().refused(
            call.replica,
            Refused {
                write: call.sort(),
                object: call.key.to_string(),
                code: parts.status.as_u16(),
                reason: text("reason"),
                fenced: sentence.contains(FENCE_MESSAGE),
                sentence,
                stale: false,
                injected: false,
            },
        );
        Response::from_parts(parts, Body::whole(bytes))
    }

    /// The same request once more, later; nobody sees that answer.
    fn deliver_again(&self, call: &Call, parcel: &Parcel, after: Duration) {
        let journey = Self { wire: self.wire.clone() };
        let parcel = Parcel { parts: parcel.parts.clone(), body: parcel.body.clone() };
        let call = call.clone();
        tokio::spawn(async move {
            sleep(after).await;
            journey.serve(&call, &parcel).await;
        });
    }

    fn crash(&self, point: &str) {
        self.shared().crash(&self.wire.origin, Down::Crashed { point: point.to_owned() });
    }
}

/// What the sender gets.
enum Outcome {
    Answer(Response<Gated>),
    Broken,
    Silence,
}

impl Outcome {
    fn lost(silent: bool) -> Self {
        if silent { Self::Silence } else { Self::Broken }
    }
}

/// The bytes of a body that is no stream.
async fn whole(mut body: Body) -> Bytes {
    let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
    let data = frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
    data.unwrap_or_default()
}

/// The body of an answer. That of a watch stands still while its line is cut, and breaks with it.
pub(super) struct Gated {
    body: Body,
    gate: Option<StreamGate>,
}

struct StreamGate {
    shared: Arc<Shared>,
    replica: usize,
    number: u64,
    broken: u64,
}

impl Gated {
    fn open(body: Body) -> Self {
        Self { body, gate: None }
    }

    fn new(shared: Arc<Shared>, replica: usize, number: u64, body: Body) -> Self {
        let broken = shared.net().broken(replica);
        Self { body, gate: Some(StreamGate { shared, replica, number, broken }) }
    }
}

impl Drop for StreamGate {
    fn drop(&mut self) {
        self.shared.net().forget(self.replica, self.number);
    }
}

impl HttpBody for Gated {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Some(gate) = &self.gate {
            let waker = context.waker();
            let mut net = gate.shared.net();
            match net.flow(gate.replica, gate.number, gate.broken, waker) {
                Flow::Flows => {}
                Flow::Silent => return Poll::Pending,
                Flow::Broken => return Poll::Ready(Some(Err(reset()))),
            }
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.gate.is_none() && self.body.is_end_stream()
    }
}

/// What a fault that struck a request is called in the story.
pub(super) fn sentence(call: &Call, effect: &Effect, name: &str) -> What {
    let to = match effect {
        Effect::LoseRequest { .. } | Effect::CrashBefore => "never arrives",
        Effect::LoseResponse { .. } => "is carried out, but its answer is lost",
        Effect::Duplicate { .. } => "is delivered twice",
        Effect::Delay { by } => {
            let sentence =
                format!("{} {} arrives {:.1} s late", call.sort(), call.key, by.as_secs_f64());
            return What::Fault { sentence };
        }
        Effect::Hold => "is held back on its way",
        Effect::Refuse { committed: false, .. } => "is turned away",
        Effect::Refuse { committed: true, .. } => "is carried out, but answered with an error",
        Effect::CrashAfter | Effect::Freeze { .. } | Effect::CutOff { .. } => "is carried out",
    };
    What::Fault { sentence: format!("{} {} {to} ({name})", call.sort(), call.key) }
}
