//! What came of a simulation as one self-contained page: the answer in words, plots, and who got what.
//! It has the look of the page of the drill, needs no network and no script, follows the light or dark
//! theme of the reader, and fits a telephone.

use std::{fmt::Write as _, time::Duration};

use super::{
    Played, Setting,
    forecast::Sample,
    outcome::{Outcome, Tenant, Wait},
};
use crate::sim::page::{STYLE, escape, frame, words::span};
use plot::{Plot, Series, Unit};

mod plot;

/// The look of what the page of the drill does not have.
const PLOTS: &str = include_str!("style.css");
/// Widest bar of shares, in percent of its place.
const BAR: f64 = 96.0;

/// One variant with what is needed to draw it.
#[derive(Clone, Debug)]
pub struct Section {
    /// What is different in it; empty if there is one only.
    name: String,
    outcome: Outcome,
    from: i64,
    end: i64,
    samples: Vec<Sample>,
    /// Waits of jobs of small and of large tenants, at each percent of the jobs.
    waits: [Vec<i64>; 2],
}

impl Section {
    /// What is drawn of a setting that was played.
    pub fn new(name: String, setting: &Setting, played: &Played, outcome: Outcome) -> Self {
        let large = outcome.waiting.large_tenants;
        let mut waits = [Vec::new(), Vec::new()];
        for (arrival, story) in played.arrivals.iter().zip(&played.stories) {
            let size = usize::from((arrival.tenant as usize) < large);
            waits[size].extend(story.started.map(|started| started - arrival.at));
        }
        let from = setting.model.from.as_millisecond();
        Self {
            name,
            from,
            end: (played.end - from).max(1),
            samples: played.samples.clone(),
            waits: waits.map(percentiles),
            outcome,
        }
    }

    /// A line of something that every sample knows.
    fn over_time(&self, value: impl Fn(&Sample) -> Option<i64>) -> Vec<(i64, Option<i64>)> {
        self.samples.iter().map(|sample| (sample.at - self.from, value(sample))).collect()
    }

    fn title(&self) -> String {
        if self.name.is_empty() { "Simulation of a queue".to_owned() } else { self.name.clone() }
    }
}

/// The numbers that 0, 1, … 100 percent do not exceed.
fn percentiles(mut all: Vec<i64>) -> Vec<i64> {
    all.sort_unstable();
    (0..=100).filter_map(|percent| super::outcome::quantile(&all, percent)).collect()
}

/// The page.
pub fn page(sections: &[Section]) -> String {
    let mut body = String::new();
    if sections.len() > 1 {
        body.push_str(&comparison(sections));
    }
    for (number, one) in sections.iter().enumerate() {
        body.push_str(&section(number, one));
    }
    let title = match sections {
        [_] => "Simulation of a queue - punctual simulate",
        _ => "Variants of a queue - punctual simulate",
    };
    let footer = "Played by <code>punctual simulate</code> on virtual time: arrivals of a model, \
                  decided by the ledger and admission code that the operator runs. No cluster was \
                  touched.";
    frame(title, &format!("{STYLE}{PLOTS}"), &body, footer)
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    span(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// All variants in one table.
fn comparison(sections: &[Section]) -> String {
    let heads = [
        "Variant",
        "Ran",
        "Rejected",
        "Small tenants, half start within",
        "99 %",
        "Large tenants, 99 %",
        "Slots in use",
        "Longest backlog",
        "Retries",
    ];
    let mut out =
        "<nav><h1>Variants of a queue</h1>\n<div class=\"scroll\"><table class=\"works\">\
                   <thead><tr>"
            .to_owned();
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for (number, Section { name, outcome, .. }) in sections.iter().enumerate() {
        let Outcome { jobs, waiting, queue, retries, .. } = outcome;
        let cells = [
            format!("<a href=\"#s{number}\">{}</a>", escape(name)),
            jobs.ran().to_string(),
            jobs.rejected().to_string(),
            time(waiting.small.p50_seconds),
            time(waiting.small.p99_seconds),
            time(waiting.large.p99_seconds),
            format!("{} %", queue.utilisation_percent),
            time(queue.longest_backlog_seconds),
            retries.admitted.to_string(),
        ];
        out.push_str("<tr>");
        for (cell, head) in cells.iter().zip(heads) {
            let _ = write!(out, "<td data-h=\"{head}\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></nav>\n");
    out
}

fn section(number: usize, section: &Section) -> String {
    let setting = &section.outcome.setting;
    let mut out = format!(
        "<section id=\"s{number}\">\n<header><h2>{}</h2>\n<p class=\"meta\">{} jobs of {} tenants in {} h \
         over {} slots, from {}, seed {}. Times are UTC.</p></header>\n",
        escape(&section.title()),
        setting.jobs,
        setting.tenants,
        setting.hours,
        setting.slots,
        escape(&setting.from_time),
        setting.seed
    );
    out.push_str(&headline(&section.outcome));
    for plot in plots(section) {
        out.push_str(&plot.html());
    }
    out.push_str(&shares(&section.outcome.tenants));
    out.push_str("</section>\n");
    out
}

/// The answer in words.
fn headline(outcome: &Outcome) -> String {
    let Outcome { jobs, waiting, queue, forecast, retries, setting, .. } = outcome;
    let rejected: Vec<String> = jobs.rejected.iter().map(|(why, n)| format!("{n} {why}")).collect();
    let rejected = match &rejected[..] {
        [] => "none was rejected".to_owned(),
        reasons => format!("{} were rejected ({})", jobs.rejected(), reasons.join(", ")),
    };
    let ran = format!(
        "Of {} jobs {} ran, {} of them failed for good; {rejected}; {} were cancelled while they waited.",
        jobs.arrived,
        jobs.ran(),
        jobs.failed,
        jobs.cancelled
    );
    let waited = format!(
        "{} {}",
        waits("Small tenants", &waiting.small),
        waits(&format!("The {} largest", waiting.large_tenants), &waiting.large)
    );
    let full = format!(
        "{} % of the slots were in use on average. At most {} jobs waited, and always somebody for {} \
         at most. All was done {} after the last hour.",
        queue.utilisation_percent,
        queue.most_waiting,
        time(queue.longest_backlog_seconds),
        time(queue.drained_after_seconds)
    );
    let said = format!(
        "Just after each burst the queue said when it would be drained: half of the time wrong \
         by {} % at most, 9 times of 10 by {} %.",
        forecast.drain.p50_percent, forecast.drain.p90_percent
    );
    let outage = match &setting.outage {
        Some(away) => format!(
            " From {} the provider failed for {}: {} % of the attempts that started then.",
            away.from_time,
            time(f64::from(away.seconds)),
            away.percent
        ),
        None => String::new(),
    };
    let failed = format!(
        "{} attempts failed and {} were tried again, which took {} % of the slot time of first attempts. \
         {} retries waited for the budget.{outage}",
        retries.failed_attempts,
        retries.admitted,
        retries.percent_of_first,
        retries.waited_for_budget
    );
    let mut out = "<div class=\"headline\">\n".to_owned();
    for (head, words) in [
        ("What ran.", ran),
        ("Who waited.", waited),
        ("How full it was.", full),
        ("How right the forecasts were.", said),
        ("What failures cost.", failed),
    ] {
        let _ = writeln!(out, "<p><b>{head}</b> {}</p>", escape(&words));
    }
    out.push_str("</div>\n");
    out
}

fn waits(who: &str, wait: &Wait) -> String {
    format!(
        "{who}: half of the jobs started within {}, 99 % within {}.",
        time(wait.p50_seconds),
        time(wait.p99_seconds)
    )
}

fn plots(section: &Section) -> [Plot; 5] {
    let slots = section.outcome.setting.slots;
    let clock = (Unit::Clock(section.from), section.end);
    let int = |number: usize| i64::try_from(number).ok();
    [
        Plot {
            title: "Jobs that wait",
            caption: "How long the queue is. Steps are bursts: at the full hour many clients wake at once."
                .to_owned(),
            across: clock,
            up: Unit::Count,
            level: None,
            series: vec![Series {
                name: "waiting jobs",
                class: "k0",
                area: true,
                points: section.over_time(|sample| int(sample.waiting)),
            }],
        },
        Plot {
            title: "Slots in use",
            caption: "A queue that is at the top for long has too few slots; one that never is has too many."
                .to_owned(),
            across: clock,
            up: Unit::Count,
            level: int(slots).map(|slots| (slots, "slots of the queue")),
            series: vec![
                Series {
                    name: "all runs",
                    class: "k0",
                    area: true,
                    points: section.over_time(|sample| int(sample.held)),
                },
                Series {
                    name: "of them retries",
                    class: "k1",
                    area: true,
                    points: section.over_time(|sample| int(sample.retries)),
                },
            ],
        },
        drain(section, clock),
        sizes(section),
        Plot {
            title: "Retry budget",
            caption: "Slot time that is left for retries. First attempts fill it; at zero retries wait, so \
                      that a provider that fails is not stormed."
                .to_owned(),
            across: clock,
            up: Unit::Span,
            level: None,
            series: vec![Series {
                name: "left, as time of one slot",
                class: "k2",
                area: true,
                points: section.over_time(|sample| Some(sample.budget_left.max(0))),
            }],
        },
    ]
}

fn drain(section: &Section, clock: (Unit, i64)) -> Plot {
    let from_then = |sample: &Sample, moment: Option<i64>| {
        moment.filter(|_| sample.waiting > 0).map(|moment| (moment - sample.at).max(0))
    };
    Plot {
        title: "Drain: forecast and what came of it",
        caption:
            "At each moment: how long until what is there then is done. The forecast does not know \
                  of jobs that come later; fair turns put some of them before others that waited."
                .to_owned(),
        across: clock,
        up: Unit::Span,
        level: None,
        series: vec![
            Series {
                name: "what came of it",
                class: "k0",
                area: true,
                points: section.over_time(|sample| from_then(sample, sample.over)),
            },
            Series {
                name: "forecast",
                class: "k1",
                area: false,
                points: section.over_time(|sample| from_then(sample, sample.about)),
            },
        ],
    }
}

fn sizes(section: &Section) -> Plot {
    let line = |waits: &Vec<i64>| (0..).zip(waits).map(|(at, wait)| (at, Some(*wait))).collect();
    let [small, large] = &section.waits;
    let count = section.outcome.waiting.large_tenants;
    Plot {
        title: "Waiting time by size of the tenant",
        caption: format!(
            "From left to right, the jobs by how long they waited: at 50 % half of them have started. \
             Large: the {count} tenants with most jobs."
        ),
        across: (Unit::Percent, 100),
        up: Unit::Span,
        level: None,
        series: vec![
            Series { name: "large tenants", class: "k1", area: false, points: line(large) },
            Series { name: "small tenants", class: "k0", area: false, points: line(small) },
        ],
    }
}

/// Who got what, against what its weight gives it.
fn shares(tenants: &[Tenant]) -> String {
    let widest = tenants.iter().flat_map(|one| [one.had_percent, one.due_percent]);
    let widest = widest.fold(1.0_f64, f64::max);
    let mut out = "<h3>Share by tenant, against its weight</h3>\n<p class=\"meta\">Of the slots of all who \
                   waited, while this one waited too. The bar is what it had, the mark what its weight \
                   gives it.</p>\n<div class=\"scroll\"><table class=\"works shares\"><thead><tr>"
        .to_owned();
    let heads =
        ["Tenant", "Had, and due", "Weight", "Jobs", "Rejected", "Half within", "99 % within"];
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for tenant in tenants {
        let place = |percent: f64| percent / widest * BAR;
        let bar = format!(
            "<div class=\"bar\"><i style=\"width:{:.1}%\"></i><b style=\"left:{:.1}%\"></b></div>\
             <small>{} %, due {} %</small>",
            place(tenant.had_percent),
            place(tenant.due_percent),
            tenant.had_percent,
            tenant.due_percent
        );
        let name = match tenant.tenants {
            1 => escape(&tenant.name),
            count => format!("{} ({count})", escape(&tenant.name)),
        };
        let cells = [
            format!("<b>{name}</b>"),
            bar,
            tenant.weight.to_string(),
            tenant.jobs.arrived.to_string(),
            tenant.jobs.rejected().to_string(),
            time(tenant.waiting.p50_seconds),
            time(tenant.waiting.p99_seconds),
        ];
        out.push_str("<tr>");
        for (cell, head) in cells.iter().zip(heads) {
            let _ = write!(out, "<td data-h=\"{head}\">{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}
