//! Why DNS has no answer.

use std::error::Error;
use std::fmt;

use hickory_resolver::net::{DnsError as Response, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RecordType;

/// Why there is no answer, and to which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsError {
    name: String,
    kind: DnsErrorKind,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DnsErrorKind {
    /// A name server says that the name does not exist (NXDOMAIN).
    NoSuchName,
    /// A name server says that the name has no records of this kind.
    NoRecords(Box<str>),
    /// No name server answered in time.
    TimedOut,
    /// A name server answered that it has failed or will not answer, such as `SERVFAIL`.
    ServerFailed(Box<str>),
    /// The question could not be asked, or the answer could not be understood, with the reason.
    Failed(Box<str>),
    /// More priorities than there are tiers.
    TooManyPriorities {
        /// How many.
        n: usize,
        /// How many tiers there are.
        max: usize,
    },
    /// The name is none.
    InvalidName(String),
    /// An option is beyond its limits, or the configuration of the system cannot be read.
    InvalidConfig(String),
}

impl DnsError {
    pub(super) fn new(name: &str, kind: DnsErrorKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
        }
    }

    /// The name that was asked for: for a service, that of the target which has no answer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why there is no answer.
    #[must_use]
    pub fn kind(&self) -> &DnsErrorKind {
        &self.kind
    }

    /// Whether a name server says that there is nothing to be found, which is more than that none
    /// was found.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(
            self.kind,
            DnsErrorKind::NoSuchName | DnsErrorKind::NoRecords(_)
        )
    }
}

impl DnsErrorKind {
    pub(super) fn of(cause: NetError, records: RecordType) -> Self {
        match cause {
            NetError::Timeout => Self::TimedOut,
            NetError::Dns(Response::ResponseCode(code)) => Self::ServerFailed(text(code)),
            NetError::Dns(Response::NoRecordsFound(no_records)) => match no_records.response_code {
                ResponseCode::NXDomain => Self::NoSuchName,
                ResponseCode::NoError => Self::no_records(records),
                code => Self::ServerFailed(text(code)),
            },
            cause => Self::Failed(cause.to_string().into()),
        }
    }

    pub(super) fn no_records(records: RecordType) -> Self {
        Self::NoRecords(records.to_string().into())
    }
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.kind {
            DnsErrorKind::NoSuchName => f.write_str("the name does not exist (NXDOMAIN)"),
            DnsErrorKind::NoRecords(records) => write!(f, "the name has no {records} records"),
            DnsErrorKind::TimedOut => f.write_str("no name server answered in time"),
            DnsErrorKind::ServerFailed(code) => write!(f, "the name server failed: {code}"),
            DnsErrorKind::Failed(cause) => write!(f, "it cannot be asked for: {cause}"),
            DnsErrorKind::TooManyPriorities { n, max } => {
                write!(f, "{n} priorities, there are {max} tiers")
            }
            DnsErrorKind::InvalidName(message) => write!(f, "no name: {message}"),
            DnsErrorKind::InvalidConfig(message) => f.write_str(message),
        }
    }
}

impl Error for DnsError {}

fn text(code: ResponseCode) -> Box<str> {
    code.to_string().into()
}
