//! Equal pod templates of many objects, kept once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde_json::Value;

use crate::{
    api::{RunSpec, Template},
    identity::sha256_hex,
};

/// Templates remembered before the forgotten ones are looked for the first time. A cluster has some
/// dozens of queues and schedules, each with one template or two.
const FIRST_LOOK: usize = 256;

/// Keeps equal templates once: each of 100,000 jobs that wait in a queue carries the same one, sealed
/// into its status, and it is by far the largest part of the job.
#[derive(Debug, Default)]
pub struct Templates {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_hash: BTreeMap<String, Weak<Value>>,
    /// Number of entries at which those that nobody uses any more are dropped.
    look_at: usize,
}

impl Templates {
    /// Lets the templates of an object's runs share memory with equal ones.
    pub fn share_runs(&self, runs: [Option<&mut RunSpec>; 2]) {
        for job in runs.into_iter().flatten().filter_map(|run| run.job.as_mut()) {
            self.share(&mut job.template);
        }
    }

    /// Lets `template` share memory with an equal one that was shown before and is still in use.
    fn share(&self, template: &mut Template) {
        let hash = sha256_hex(template.to_string().as_bytes());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = known.by_hash.get(&hash).and_then(Weak::upgrade) {
            // Different templates of one hash stay apart.
            if other == *template.shared() {
                *template = other.into();
            }
            return;
        }
        known.by_hash.insert(hash, Arc::downgrade(template.shared()));
        if known.by_hash.len() >= known.look_at.max(FIRST_LOOK) {
            known.by_hash.retain(|_, template| template.strong_count() > 0);
            known.look_at = 2 * known.by_hash.len();
        }
    }

    /// Templates that are remembered, those included that nobody uses any more.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.lock().unwrap().by_hash.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Template {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn equal_templates_are_kept_once_and_others_stay_apart() {
        let templates = Templates::default();
        let (mut one, mut same, mut other) =
            (read(r#"{"a": 1, "b": 2}"#), read(r#"{"b": 2, "a": 1}"#), read(r#"{"a": 1}"#));
        let before = (one.clone(), same.clone(), other.clone());
        for template in [&mut one, &mut same, &mut other] {
            templates.share(template);
        }
        assert_eq!((&one, &same, &other), (&before.0, &before.1, &before.2));
        assert!(Arc::ptr_eq(one.shared(), same.shared()));
        assert!(!Arc::ptr_eq(one.shared(), other.shared()));
        assert_eq!(templates.len(), 2);
    }

    #[test]
    fn templates_that_nobody_uses_are_forgotten() {
        let templates = Templates::default();
        let mut kept = Template::from(json!({"kept": true}));
        templates.share(&mut kept);
        for number in 0..20 * FIRST_LOOK {
            templates.share(&mut Template::from(json!({ "number": number })));
            assert!(templates.len() <= 2 * FIRST_LOOK, "{} after {number}", templates.len());
        }
        let mut again = Template::from(json!({"kept": true}));
        templates.share(&mut again);
        assert!(Arc::ptr_eq(kept.shared(), again.shared()));
    }
}
