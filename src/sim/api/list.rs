//! Lists, in pages.

use std::borrow::Cow;

use hyper::body::Bytes;

use super::{
    http::Call,
    kinds,
    refusal::Refusal,
    select::Selector,
    server::Stale,
    store::{Objects, Store, Stored},
};
use crate::sim::Key;

/// Where a list goes on: the revision it is of, and the last object that was shown.
struct Token {
    revision: u64,
    after: Key,
}

impl Token {
    fn parse(call: &Call, text: &str) -> Result<Self, Refusal> {
        let parts: Vec<&str> = text.splitn(3, ' ').collect();
        let token = match parts[..] {
            [revision, namespace, name] => revision
                .parse()
                .ok()
                .map(|revision| Self { revision, after: Key::new(call.kind, namespace, name) }),
            _ => None,
        };
        token.ok_or_else(|| Refusal::bad_request("continue key is not valid"))
    }

    fn text(&self) -> String {
        format!("{} {} {}", self.revision, self.after.namespace, self.after.name)
    }
}

/// One page of a list.
pub(super) fn page(
    store: &Store,
    call: &Call,
    selector: &Selector,
    stale: Option<&Stale>,
) -> Result<Bytes, Refusal> {
    let limit = call.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(usize::MAX);
    let token = match call.query.get("continue") {
        "" => None,
        text => Some(Token::parse(call, text)?),
    };
    let (objects, revision) = view(store, call, token.as_ref(), stale)?;
    let all = Store::of_kind(&objects, call.kind, &call.namespace)
        .filter(|(key, _)| token.as_ref().is_none_or(|token| **key > token.after))
        .filter(|(_, stored)| selector.is_empty() || selector.shows(&stored.object));
    let mut shown: Vec<(&Key, &Stored)> = Vec::new();
    let mut remaining = 0_usize;
    for one in all {
        if shown.len() < limit {
            shown.push(one);
        } else {
            remaining += 1;
        }
    }
    let next = shown
        .last()
        .filter(|_| remaining > 0)
        .map(|(key, _)| Token { revision, after: (*key).clone() }.text());
    // With a selector the real server does not know how many are left.
    let count = Some(remaining).filter(|left| *left > 0 && selector.is_empty());
    Ok(text(call, revision, next.as_deref(), count, &shown))
}

/// The objects that a list is of, and their revision.
fn view<'a>(
    store: &'a Store,
    call: &Call,
    token: Option<&Token>,
    stale: Option<&'a Stale>,
) -> Result<(Cow<'a, Objects>, u64), Refusal> {
    if let Some(token) = token {
        if !store.is_kept(call.kind, token.revision) {
            return Err(expired(store, token));
        }
        return Ok((Cow::Owned(store.as_of(call.kind, token.revision)), token.revision));
    }
    if call.query.get("resourceVersionMatch") == "Exact"
        && let Some(revision) = call.query.number("resourceVersion")?
    {
        if !store.is_kept(call.kind, revision) {
            return Err(Refusal::expired(format!(
                "The provided resource version {revision} is too old"
            )));
        }
        return Ok((Cow::Owned(store.as_of(call.kind, revision)), revision));
    }
    Ok(match stale {
        Some(stale) => (Cow::Borrowed(&stale.objects), stale.revision),
        None => (Cow::Borrowed(store.objects()), store.revision()),
    })
}

fn expired(store: &Store, token: &Token) -> Refusal {
    let mut refusal = Refusal::expired(
        "The provided continue parameter is too old to display a consistent list result. You can \
         start a new list without the continue parameter, or use the continue token in this \
         response to retrieve the remainder of the results. Continuing with the provided token \
         results in an inconsistent list - objects that were created, modified, or deleted between \
         the time the first chunk was returned and now may show up in the list.",
    );
    let now = Token { revision: store.revision(), after: token.after.clone() };
    refusal.continue_token = Some(now.text());
    refusal
}

fn text(
    call: &Call,
    revision: u64,
    next: Option<&str>,
    remaining: Option<usize>,
    shown: &[(&Key, &Stored)],
) -> Bytes {
    let (kind, api_version) = (call.kind.name(), kinds::api_version(call.kind));
    let length = shown.iter().map(|(_, stored)| stored.bytes().len() + 1).sum::<usize>();
    let mut text = Vec::with_capacity(length + 256);
    let head = format!(
        "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":\
         {{\"resourceVersion\":\"{revision}\""
    );
    text.extend_from_slice(head.as_bytes());
    if let Some(next) = next {
        // A token has no sign that JSON would have to escape.
        text.extend_from_slice(format!(",\"continue\":\"{next}\"").as_bytes());
    }
    if let Some(remaining) = remaining {
        text.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
    }
    text.extend_from_slice(b"},\"items\":[");
    for (index, (_, stored)) in shown.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(stored.bytes());
    }
    text.extend_from_slice(b"]}");
    text.into()
}
