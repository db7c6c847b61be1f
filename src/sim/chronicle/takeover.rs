//! What a new leader found, item by item.

use std::{collections::BTreeSet, time::Duration};

use serde::Serialize;
use serde_json::Value;

use super::{Chronicle, Work};
use crate::{api::RecoveryClass, sim::world::Term};

/// One takeover, as its recovery trace tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Takeover {
    /// Epoch of the new term.
    pub epoch: i64,
    /// Who took over.
    pub leader: String,
    /// How: `First`, `Released`, `Expired`, `LeaseDeleted`.
    pub gained: String,
    /// How long recovery took; empty if it was not completed.
    pub took: String,
    /// Items of which nothing was running.
    pub resumed: Option<i64>,
    /// Items whose provider was asked and answered.
    pub reconciled: Option<i64>,
    /// Items that were over.
    pub preserved: Option<i64>,
    /// Items of which nobody could say how they stand.
    pub uncertain: Option<i64>,
    /// What it found, by name.
    pub items: Vec<FoundItem>,
}

/// A piece of work that a new leader found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundItem {
    /// As scenario files write it.
    pub object: String,
    /// How it stood then.
    pub was: String,
    /// Its class.
    pub class: String,
    /// How it stands at the end.
    pub became: String,
    /// How many runs of it were released in the whole history.
    pub runs: usize,
}

impl Chronicle {
    /// Every takeover of which there is a trace, oldest first.
    pub fn takeovers(&self) -> Vec<Takeover> {
        self.traces.iter().filter_map(|trace| self.takeover(trace)).collect()
    }

    fn takeover(&self, trace: &Value) -> Option<Takeover> {
        let (spec, status) = (&trace["spec"], &trace["status"]);
        let epoch = spec["epoch"].as_i64()?;
        let holder = spec["holder"].as_str().unwrap_or_default();
        let leader = holder.split('/').next().unwrap_or(holder).to_owned();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let term = self.terms.iter().find(|term| term.epoch == epoch);
        let items = term.map_or_else(Vec::new, |term| self.found(term, status));
        Some(Takeover {
            epoch,
            leader,
            gained: text(&spec["gained"]),
            took: text(&status["duration"]),
            resumed: status["resumed"].as_i64(),
            reconciled: status["reconciled"].as_i64(),
            preserved: status["preserved"].as_i64(),
            uncertain: status["uncertain"].as_i64(),
            items,
        })
    }

    fn found(&self, term: &Term, status: &Value) -> Vec<FoundItem> {
        let listed = status["items"].as_array().into_iter().flatten();
        let uncertain: BTreeSet<&str> = listed.filter_map(|item| item["object"].as_str()).collect();
        let there = |work: &&Work| {
            work.created < term.began && work.gone.is_none_or(|gone| gone > term.began)
        };
        let mut works: Vec<&Work> = self.works.iter().filter(there).collect();
        works.sort_by(|a, b| a.key.cmp(&b.key));
        let item = |work: &Work| {
            let name =
                format!("{}/{}/{}", work.key.namespace, work.key.kind.short(), work.key.name);
            let class = if uncertain.contains(name.as_str()) {
                RecoveryClass::Uncertain
            } else {
                self.class(work, term.began)
            };
            FoundItem {
                object: work.key.to_string(),
                was: self.standing(work, term.began),
                class: class.as_str().to_owned(),
                became: work.state().to_owned(),
                runs: self.released_runs(work),
            }
        };
        works.into_iter().map(item).collect()
    }

    /// The class of a piece of work of which the trace does not say that it was uncertain.
    fn class(&self, work: &Work, at: Duration) -> RecoveryClass {
        let state = work.state_at(at).map_or("", |change| change.state.as_str());
        match state {
            "Succeeded" | "Failed" | "Cancelled" | "Rejected" | "Skipped" | "Superseded" => {
                RecoveryClass::Preserved
            }
            _ if self.acted(work, at) => RecoveryClass::Reconciled,
            _ => RecoveryClass::Resumed,
        }
    }

    /// Whether a committed run of it had been released by then, and its end was not recorded.
    fn acted(&self, work: &Work, at: Duration) -> bool {
        let open = work.state_at(at).is_some_and(|change| {
            matches!(
                change.state.as_str(),
                "Starting" | "Admitted" | "Running" | "Cancelling" | "Unresolved"
            )
        });
        let released = |run: &super::Run| run.released.is_some_and(|released| released <= at);
        open && self.runs.iter().rfind(|run| run.is_of(work)).is_some_and(released)
    }

    /// How it stood then, in words.
    fn standing(&self, work: &Work, at: Duration) -> String {
        let change = work.state_at(at);
        let state = change.map_or("Created", |change| change.state.as_str());
        let held = self.runs.iter().rev().find(|run| run.is_of(work) && run.held <= at);
        match (state, held) {
            ("Starting" | "Admitted", Some(run))
                if run.released.is_none_or(|released| released > at) =>
            {
                "prepared, not released".to_owned()
            }
            ("Starting" | "Admitted", Some(_)) => "released, not yet recorded".to_owned(),
            ("Created", Some(_)) => "prepared, not committed".to_owned(),
            ("Created", None) => "created".to_owned(),
            _ => state.to_owned(),
        }
    }

    /// How many distinct runs of a piece of work were released.
    pub fn released_runs(&self, work: &Work) -> usize {
        let of = self.runs.iter().filter(|run| run.is_of(work) && run.released.is_some());
        of.map(|run| run.run_key.as_str()).collect::<BTreeSet<_>>().len()
    }
}
