//! What it means that an object carries a newer fence than the own term: pure.

use super::{LostReason, Read};
use crate::{api::Fence, authority::Term};

/// What follows from a newer fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Leadership is over, or must end so that the next term can outrank the fence.
    Lose(LostReason),
    /// No term of the near future outranks it: the object alone is left alone.
    Quarantine,
}

/// Judges a newer fence by the Lease as it is now.
///
/// If the Lease is not of the own term any more, a successor wrote the fence. If an acquisition now
/// would get a higher epoch than the fence has, giving way cures it. Otherwise the fence comes from
/// elsewhere (a restored object, a person, a younger cluster) and only that object is given up.
pub fn judge(fence: &Fence, lease: &Read, mine: &Term, epoch_offset: i64) -> Verdict {
    let view = match lease {
        Read::Lease(view) => view,
        Read::Absent => return Verdict::Lose(LostReason::LeaseDeleted),
        Read::Unusable(_) => return Verdict::Lose(LostReason::Taken { holder: None }),
    };
    if view.nonce.as_deref() != Some(&mine.nonce) {
        return Verdict::Lose(LostReason::Taken { holder: view.holder.clone() });
    }
    let next = view.resource_version.saturating_add(epoch_offset);
    if next > fence.epoch {
        return Verdict::Lose(LostReason::Outranked);
    }
    Verdict::Quarantine
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::lease::{LeaseView, UnusableLease};

    #[test]
    fn a_newer_fence_is_judged_by_the_lease() {
        let lease = |version, nonce: &str| {
            Read::Lease(LeaseView {
                uid: "u".into(),
                resource_version: version,
                holder: Some("pod/x".into()),
                duration: None,
                epoch: None,
                nonce: Some(nonce.into()),
                attempt: None,
                steered: false,
            })
        };
        let taken = |holder: Option<&str>| {
            Verdict::Lose(LostReason::Taken { holder: holder.map(ToOwned::to_owned) })
        };
        let mine = Term { epoch: 50, nonce: "mine".into() };
        for (what, read, offset, expected) in [
            ("a successor", lease(70, "other"), 0, taken(Some("pod/x"))),
            ("deleted", Read::Absent, 0, Verdict::Lose(LostReason::LeaseDeleted)),
            ("unusable", Read::Unusable(UnusableLease::NoUid), 0, taken(None)),
            ("the next term is higher", lease(61, "mine"), 0, Verdict::Lose(LostReason::Outranked)),
            ("it would only be equal", lease(60, "mine"), 0, Verdict::Quarantine),
            ("far above", lease(55, "mine"), 0, Verdict::Quarantine),
            ("the offset counts", lease(55, "mine"), 6, Verdict::Lose(LostReason::Outranked)),
            ("no overflow", lease(i64::MAX, "mine"), 6, Verdict::Lose(LostReason::Outranked)),
        ] {
            let fence = Fence { epoch: 60, nonce: "z".into() };
            assert_eq!(judge(&fence, &read, &mine, offset), expected, "{what}");
        }
    }
}
