//! Why a report waits: by the very code that admits, on what the queue and its jobs say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    answer::{Answer, many, second, span},
    commands::Target,
    occurrence::list,
    queue::tell_when_it_opens,
    snapshot::typed,
};
use crate::{
    api::{Admissions, Ledger, MAX_CHARGE, ReportJob, ReportQueue, TAG_SCALE},
    reports::{
        admission::Why,
        drain,
        ledger::Books,
        queue::{Book, entries, ledger, spec},
        rules::{Rules, Starts},
    },
};

/// A queue as its leader sees it, made again from what is stored.
pub(super) struct Line {
    queue: ReportQueue,
    book: Book,
    books: Books,
    rules: Rules,
    now: Timestamp,
    tenants: BTreeMap<String, String>,
}

/// Largest number of a ledger that this program writes: it starts anew beyond that.
const MOST: i64 = 1 << 51;

/// The queue with a ledger whose numbers are such as the operator writes, whatever is stored: the
/// arithmetic of admission relies on it.
fn within_bounds(mut queue: ReportQueue) -> ReportQueue {
    if let Some(ledger) = queue.status.as_mut().and_then(|status| status.ledger.as_mut()) {
        for number in [&mut ledger.virtual_time, &mut ledger.retry_spent] {
            *number = (*number).clamp(0, MOST);
        }
        ledger.largest_charge = ledger.largest_charge.clamp(0, MAX_CHARGE);
        ledger.retries_per_million = ledger.retries_per_million.clamp(0, 1_000_000);
        ledger.tags.iter_mut().for_each(|tag| tag.finish = tag.finish.clamp(0, MOST));
        ledger
            .entries
            .iter_mut()
            .for_each(|entry| entry.charge = entry.charge.clamp(0, MAX_CHARGE));
    }
    queue
}

/// Whether the leader has yet to account for what it found.
fn is_paused(queue: &ReportQueue) -> bool {
    queue.status.as_ref().and_then(|status| status.admissions) == Some(Admissions::Paused)
}

impl Line {
    /// The queue and its jobs, those that cannot be read left out.
    pub(super) fn new(queue: ReportQueue, jobs: &[Value], now: Timestamp) -> Self {
        let queue = within_bounds(queue);
        let mut book = Book::default();
        let mut tenants = BTreeMap::new();
        book.hold(entries(&queue));
        for job in jobs.iter().filter_map(|job| typed::<ReportJob>(job).ok()) {
            let name = job.metadata.name.clone().unwrap_or_default();
            book.follow(&name, Some(&job));
            tenants.insert(name, job.spec.tenant);
        }
        book.advance(now);
        let books = Books::open(ledger(&queue).unwrap_or(&Ledger::new()));
        let rules = spec::rules(&queue.spec, is_paused(&queue), now);
        Self { queue, book, books, rules, now, tenants }
    }

    /// The order of admission as far as it is known: names, and when each is likely to start. While
    /// nothing starts, the order in which they will.
    fn order(&self) -> Vec<(String, Timestamp)> {
        let open = Rules { starts: Starts::Open, ..self.rules.clone() };
        let order = drain::order(&self.books, self.book.waiting(), &open, self.now);
        order.into_iter().map(|(name, at)| (name.to_string(), at)).collect()
    }

    /// Why this job waits, who is ahead of it, and when it starts.
    pub(super) fn explain(&mut self, answer: &mut Answer, name: &str, tenant: &str) {
        let paused = is_paused(&self.queue);
        let queue = self.queue.clone();
        let why = self.book.explain(&queue, paused, self.now, name);
        let Some(why) = why else {
            answer.because("Its queue has not answered it yet: whether there is a place for it is decided within a second, while a leader has the queue open.");
            answer.then(
                None,
                "It is accepted and waits, or it is Rejected with a time to come back.",
            );
            return;
        };
        self.rule(answer, why, tenant);
        self.slots(answer);
        self.ahead(answer, why, name, tenant);
    }

    fn queue_target(&self) -> Target {
        let meta = &self.queue.metadata;
        let name = meta.name.as_deref().unwrap_or_default();
        Target::new(format!("rqueue/{name}"), meta.namespace.as_deref().unwrap_or_default())
    }

    fn rule(&self, answer: &mut Answer, why: Why, tenant: &str) {
        let queue = self.queue_target();
        answer.because(format!("{}: {why}.", why.reason()));
        match why {
            Why::QueuePaused => {
                answer.because("After a change of leader nothing new starts in a queue until it is known what holds its slots: each report is read, and its provider is asked. Otherwise more could run than there are slots.");
                answer.can("To see what is not accounted for", queue.why());
            }
            Why::QueueHeld => {
                if let Some(note) = &self.queue.spec.admission_reason {
                    answer.because(format!("Note on the hold: {note}"));
                }
                tell_when_it_opens(answer, &self.queue.spec, self.now);
                answer.can("To open it", queue.resume());
            }
            Why::NameTaken => answer.because("Deleting a report that runs is a cancel. Its slot, and its name, stay taken until its run is proven over."),
            Why::BackingOff { .. } => answer.because("An attempt failed, and the pause before the next one is not over."),
            Why::RetriesDisabled => answer.can("To let failed reports run again (spec.retries.enabled)", queue.edit()),
            Why::TenantBarred | Why::TenantLimit => {
                let most = self.queue.spec.tenants.iter().find(|rule| rule.name == tenant);
                let most = most.and_then(|rule| rule.max_running).unwrap_or_default();
                let running = self.books.running(tenant);
                answer.because(format!("Tenant {tenant} holds {} and may hold {most} (maxRunning in spec.tenants of the queue). Free slots go to others meanwhile.", many(running as usize, "slot")));
                answer.can("To give the tenant more (maxRunning)", queue.edit());
            }
            Why::RetryBudgetExhausted => {
                let left = self.books.retry_budget_left(&self.rules) / 1000;
                let percent = self.queue.spec.retries.budget_percent;
                answer.because(format!("Retries may cost {percent} % of what first attempts cost, so that failing reports cannot take the queue from others. {left} slot-seconds are left."));
                answer.can("To give retries more (spec.retries.budgetPercent)", queue.edit());
            }
            Why::RetryShare => answer.because(format!(
                "Retries may hold {} slots while first attempts wait, and {} when none do.",
                self.rules.most_retries(true),
                self.rules.most_retries(false)
            )),
            Why::FairShare => self.share(answer, tenant),
            Why::WaitingForSlot => answer.because("Slots go to the tenant that has had the least, and within one tenant by priority, then age."),
            Why::Next => answer.then(None, "It is admitted with the next pass of its queue, within a second."),
        }
    }

    /// What the tenant has had before others who wait.
    fn share(&self, answer: &mut Answer, tenant: &str) {
        let weight = self.rules.weight(tenant);
        let ledger = ledger(&self.queue);
        let tag = ledger.and_then(|l| l.tags.iter().find(|tag| tag.tenant == tenant));
        let ahead = tag.map_or(0, |tag| {
            let units = tag.finish.saturating_sub(ledger.map_or(0, |l| l.virtual_time)).max(0);
            units / TAG_SCALE / 1000
        });
        let running = self.books.running(tenant);
        answer.because(format!("Slots are shared fairly between tenants: whoever has had the least slot time for its weight is next. Tenant {tenant} (weight {weight}) holds {} and has been given about {ahead} s of slot time for each unit of weight before its turn. Others who wait have had less.", many(running as usize, "slot")));
    }

    fn slots(&self, answer: &mut Answer) {
        let (used, slots) = (self.books.used(), self.queue.spec.slots);
        let holders: Vec<String> = self
            .books
            .entries()
            .map(|entry| {
                let since = span(self.now.duration_since(entry.admitted_time.0));
                format!("rjob/{} of {} (for {since})", entry.job, entry.tenant)
            })
            .collect();
        let held = if holders.is_empty() { String::new() } else { format!(": {}", list(&holders)) };
        let queue = self.queue_target().object;
        answer.because(format!("{used} of {slots} slots of {queue} are taken{held}."));
    }

    fn ahead(&self, answer: &mut Answer, why: Why, name: &str, tenant: &str) {
        let order = self.order();
        let waiting = self.book.waiting().len();
        let Some(place) = order.iter().position(|(other, _)| other == name) else {
            let text = match why {
                Why::BackingOff { until } => {
                    answer.then(
                        Some(until),
                        "Its pause is over; then it waits for a slot like others.",
                    );
                    return;
                }
                _ if order.len() < drain::MAX_REPLAYED => format!(
                    "{} wait. It cannot start as long as the rule above holds, so its place is not counted.",
                    many(waiting, "report")
                ),
                _ => format!(
                    "{} wait; more than {} start before it.",
                    many(waiting, "report"),
                    drain::MAX_REPLAYED
                ),
            };
            answer.because(text);
            return;
        };
        let before = &order[..place];
        let tenant_of = |name: &str| self.tenants.get(name).map_or("?", String::as_str);
        let own = before.iter().filter(|(other, _)| tenant_of(other) == tenant).count();
        if before.is_empty() {
            answer.because("Nobody is ahead of it.");
        } else {
            let names: Vec<String> = before
                .iter()
                .map(|(other, _)| format!("rjob/{other} of {}", tenant_of(other)))
                .collect();
            answer.because(format!(
                "Before it, {}: {own} of its own tenant and {} of others: {}.",
                many(before.len(), "report"),
                before.len() - own,
                list(&names)
            ));
        }
        let (_, at) = order[place];
        if self.rules.starts == Starts::Open {
            answer.then(Some(drain::whole(at)), "It starts about then, if runs take as long as estimated and nobody with more right comes.");
        } else {
            let after = span(at.duration_since(self.now));
            answer.then(None, format!("Once the queue is open it starts after about {after}."));
        }
    }

    /// What the queue will have done when.
    pub(super) fn explain_drain(&self, answer: &mut Answer) {
        let drained = drain::drain(&self.books, self.book.waiting(), &self.rules, self.now);
        if drained.jobs == 0 {
            answer.because("Nothing waits and nothing runs.");
            return;
        }
        answer.because(format!(
            "What waits and what runs, {} in all, needs about {} s of slot time.",
            many(drained.jobs, "report"),
            drained.slot_seconds
        ));
        if let Some(about) = drained.about {
            let most = drained.at_most.map(|at| format!(", at the latest {}", second(at)));
            answer.then(
                Some(drain::whole(about)),
                format!("What waits now is done about then{}.", most.unwrap_or_default()),
            );
        }
    }

    /// How many wait, and how many tenants do.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.book.waiting().len(), self.book.waiting().tenants())
    }

    /// Who is next, in order.
    pub(super) fn next(&self) -> Vec<String> {
        let tenant_of = |name: &str| self.tenants.get(name).map_or("?", String::as_str);
        self.order()
            .into_iter()
            .map(|(name, _)| format!("rjob/{name} of {}", tenant_of(&name)))
            .collect()
    }

    /// What holds a slot, oldest first.
    pub(super) fn holders(&self) -> Vec<&crate::api::LedgerEntry> {
        let mut all: Vec<_> = self.books.entries().collect();
        all.sort_by_key(|entry| entry.admitted_time.0);
        all
    }
}
