//! What goes wrong, and when.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::glob::glob;

/// Faults that are armed at once.
pub const MAX_FAULTS: usize = 64;
/// Delay of [`Kind::Slow`] if none is given: longer than any client waits.
const DEFAULT_MILLIS: u64 = 30_000;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A GET answers that the service cannot say how the run stands.
    Unknown,
    /// The connection is closed and nothing is done.
    Unreachable,
    /// It is done at once, and answered later.
    Slow,
    /// It is done, and the answer is lost.
    LostResponse,
    /// It is recorded, and the process dies before it answers.
    Crash,
    /// The service loses its memory of the run before it looks at the request.
    Forget,
    /// The request arrives twice; the second answer is given.
    Duplicate,
    /// The service has seen a higher epoch, which nobody here ever had.
    EpochRefused,
    /// A PUT is held up by the network until after the next DELETE of its key.
    LatePut,
}

/// One operation of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// `GET /capabilities`.
    Capabilities,
    /// `PUT /runs/{key}`.
    Put,
    /// `POST /runs/{key}/release`.
    Release,
    /// `GET /runs/{key}`.
    Get,
    /// `DELETE /runs/{key}`.
    Delete,
}

/// A fault that is armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub fault: Kind,
    /// Run keys it concerns; `*` stands for any characters, `?` for one.
    #[serde(rename = "match", default = "any")]
    pub pattern: String,
    /// The operation it concerns; without one, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Operation>,
    /// How often it strikes; without a number, always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Delay of `slow`, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
}

fn any() -> String {
    "*".to_owned()
}

impl Fault {
    /// The fault for every key and operation.
    pub fn of(fault: Kind) -> Self {
        Self { fault, pattern: any(), on: None, times: None, millis: None }
    }

    /// Delay of the answer.
    pub fn delay(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.millis.unwrap_or(DEFAULT_MILLIS))
    }

    fn concerns(&self, key: &str, operation: Operation) -> bool {
        let possible = match self.fault {
            Kind::Unknown => operation == Operation::Get,
            Kind::LatePut => operation == Operation::Put,
            Kind::Forget | Kind::EpochRefused => operation != Operation::Capabilities,
            Kind::Unreachable | Kind::Slow | Kind::LostResponse | Kind::Crash | Kind::Duplicate => {
                true
            }
        };
        possible && self.on.is_none_or(|on| on == operation) && glob(&self.pattern, key)
    }
}

/// `KIND[,match=GLOB][,on=OPERATION][,times=N][,millis=N]`, for the command line.
impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let kind = parts.next().unwrap_or_default();
        let word = |word: &str| serde_json::Value::String(word.to_owned());
        let kind: Kind = serde_json::from_value(word(kind)).map_err(|_| {
            format!(
                "{kind:?} is no fault; there are unknown, unreachable, slow, lost-response, crash, \
                 forget, duplicate, epoch-refused and late-put"
            )
        })?;
        let mut fault = Self::of(kind);
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || value.parse().map_err(|_| format!("{part:?}: {name} is a number"));
            match name {
                "match" => value.clone_into(&mut fault.pattern),
                "on" => {
                    fault.on = Some(serde_json::from_value(word(value)).map_err(|_| {
                        format!(
                            "{value:?} is no operation; there are capabilities, put, release, get \
                             and delete"
                        )
                    })?);
                }
                "times" => fault.times = Some(number()?),
                "millis" => fault.millis = Some(u64::from(number()?)),
                _ => return Err(format!("{part:?}: there are match=, on=, times= and millis=")),
            }
        }
        Ok(fault)
    }
}

/// The faults that are armed; the first that concerns a request strikes.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Arms one more, in front of the others. Refused if there are too many.
    pub fn arm(&mut self, fault: Fault) -> Result<(), String> {
        if self.0.len() >= MAX_FAULTS {
            return Err(format!("{MAX_FAULTS} faults are armed; DELETE /fake/faults first"));
        }
        self.0.insert(0, fault);
        Ok(())
    }

    /// Disarms all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Those that are armed.
    pub fn all(&self) -> &[Fault] {
        &self.0
    }

    /// The fault that strikes this request, if any.
    pub fn strike(&mut self, key: &str, operation: Operation) -> Option<Fault> {
        let at = self.0.iter().position(|fault| fault.concerns(key, operation))?;
        let fault = self.0[at].clone();
        match &mut self.0[at].times {
            None => {}
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => {
                self.0.remove(at);
            }
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_written_in_one_word_and_what_they_concern() {
        let fault: Fault = "slow,match=abc-*,on=release,times=2,millis=50".parse().unwrap();
        let expected = Fault {
            fault: Kind::Slow,
            pattern: "abc-*".into(),
            on: Some(Operation::Release),
            times: Some(2),
            millis: Some(50),
        };
        assert_eq!(fault, expected);
        assert_eq!("crash".parse(), Ok(Fault::of(Kind::Crash)));
        for (bad, part) in [
            ("", "there are unknown"),
            ("slowly", "there are unknown"),
            ("slow,on=patch", "there are capabilities"),
            ("slow,times=often", "is a number"),
            ("slow,for=ever", "there are match="),
        ] {
            let error = bad.parse::<Fault>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_fault_strikes_what_it_concerns_and_as_often_as_it_says() {
        let mut faults = Faults::default();
        faults.arm("lost-response,match=a-*,on=put,times=2".parse().unwrap()).unwrap();
        assert_eq!(faults.strike("b-m1", Operation::Put), None);
        assert_eq!(faults.strike("a-m1", Operation::Get), None);
        assert!(faults.strike("a-m1", Operation::Put).is_some());
        assert!(faults.strike("a-m2", Operation::Put).is_some());
        assert_eq!(faults.strike("a-m1", Operation::Put), None, "twice was said");
        faults.arm("unknown".parse().unwrap()).unwrap();
        assert_eq!(faults.strike("a-m1", Operation::Put), None, "it concerns no PUT");
        assert!(faults.strike("a-m1", Operation::Get).is_some());
        let full = (0..=MAX_FAULTS).map(|_| faults.arm(Fault::of(Kind::Slow))).find(Result::is_err);
        assert!(full.unwrap().unwrap_err().contains("64 faults"));
    }
}
