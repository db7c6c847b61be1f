//! Which addresses a provider may have.
//!
//! Whoever may create a run chooses the address that the operator calls, so the operator must not be
//! a way to places that only it can reach: its own pod (loopback) and the metadata services of clouds
//! (link-local). The names are checked here, the addresses they resolve to in the transport, which
//! connects to nothing that was not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::Uri;

use crate::api::truncate;

/// Most characters of an address that a sentence repeats.
const MAX_SHOWN: usize = 120;
/// The metadata service of one cloud, which has no link-local address over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// The base address of a provider, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseUrl {
    https: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    path: String,
}

impl BaseUrl {
    /// Reads an address; the sentence says what is wrong with it. `what` names the field.
    pub(super) fn parse(what: &str, text: &str) -> Result<Self, String> {
        let shown = truncate(text, MAX_SHOWN);
        let bad = |why: &str| {
            format!("{what} {shown:?}: {why}; write it like https://runner.example:8443/v1")
        };
        let uri: Uri = text.parse().map_err(|_| bad("it is not an address"))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("it must begin with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it must not contain a user; use credentialsSecretRef"));
        }
        if text.contains(['?', '#']) {
            return Err(bad("it must have no query and no fragment"));
        }
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        // Not `Authority::port`, which takes no port for none that it can read.
        let port = match authority.as_str().get(host.len()..).unwrap_or_default() {
            "" if https => 443,
            "" => 80,
            rest => match rest.strip_prefix(':').and_then(|port| port.parse().ok()) {
                Some(port) if port > 0 => port,
                _ => return Err(bad("its port is no port")),
            },
        };
        let path = uri.path().trim_end_matches('/').to_owned();
        // Dots and escapes would let an address leave the part that a Secret allows.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
        let leaves = |part: &str| part == "." || part == "..";
        if !path.chars().all(plain) || path.split('/').any(leaves) || path.contains("//") {
            return Err(bad("its path may have letters, digits and -._~ between single slashes"));
        }
        Ok(Self { https, host, port, path })
    }

    /// Whether an address begins with this one: the same scheme, host and port, and the path or one
    /// below it. Not a comparison of text: `https://a.example` is no beginning of
    /// `https://a.example.net`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let below = other.path.strip_prefix(&self.path);
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The whole address of `path`, which begins with a slash.
    pub(super) fn join(&self, path: &str) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}:{}{}{path}", self.host, self.port, self.path)
    }
}

/// Whether an address is this machine, or one that only this machine can reach.
pub(super) fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4_is_local(v4),
        IpAddr::V6(v6) => match inner_v4(v6) {
            Some(v4) => v4_is_local(v4),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unicast_link_local()
                    || v6 == METADATA_V6
            }
        },
    }
}

/// Whether an address names many machines.
pub(super) fn is_many(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => {
            v6.is_multicast()
                || inner_v4(v6).is_some_and(|v4| v4.is_multicast() || v4.is_broadcast())
        }
    }
}

fn v4_is_local(v4: Ipv4Addr) -> bool {
    // All of 0/8 is this machine.
    v4.is_loopback() || v4.is_link_local() || v4.octets()[0] == 0
}

/// The IPv4 address that an IPv6 address stands for: mapped, compatible, or behind NAT64.
fn inner_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    if let Some(mapped) = v6.to_ipv4_mapped() {
        return Some(mapped);
    }
    let [prefix @ .., high, low] = v6.segments();
    let nat64 = prefix == [0x64, 0xff9b, 0, 0, 0, 0];
    let compatible = prefix == [0; 6] && high != 0;
    let bits = (u32::from(high) << 16) | u32::from(low);
    (nat64 || compatible).then(|| Ipv4Addr::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse("run.http.url", text).unwrap()
    }

    #[test]
    fn an_address_is_taken_apart_and_put_together_again() {
        for (given, joined) in [
            ("https://runner.example/v1", "https://runner.example:443/v1/runs/a"),
            ("https://Runner.Example:8443/v1/", "https://runner.example:8443/v1/runs/a"),
            ("http://runner.jobs.svc", "http://runner.jobs.svc:80/runs/a"),
            ("http://[2001:db8::1]:9/x", "http://[2001:db8::1]:9/x/runs/a"),
        ] {
            assert_eq!(url(given).join("/runs/a"), joined, "{given}");
        }
    }

    #[test]
    fn what_is_no_address_of_a_provider_is_refused_with_the_field_and_the_fix() {
        for (given, part) in [
            ("", "not an address"),
            ("runner.example/v1", ""),
            ("ftp://runner.example", "begin with https://"),
            ("https://user:word@runner.example", "must not contain a user"),
            ("https://runner.example@evil.example", "must not contain a user"),
            ("https://runner.example/v1?a=b", "no query"),
            ("https://runner.example/v1#a", "no query"),
            ("https://runner.example/a/../b", "path"),
            ("https://runner.example/a/%2e%2e/b", "path"),
            ("https://runner.example//a", "path"),
            ("https://runner.example:0", "port"),
            ("https://runner.example:99999", ""),
        ] {
            let error = BaseUrl::parse("run.http.url", given).unwrap_err();
            assert!(error.starts_with("run.http.url "), "{error}");
            assert!(
                error.contains(part) && error.contains("https://runner.example:8443"),
                "{error}"
            );
        }
        let long = format!("https://a/{}", "%".repeat(2000));
        assert!(BaseUrl::parse("run.http.url", &long).unwrap_err().len() < 400);
    }

    #[test]
    fn a_secret_allows_an_address_and_what_is_below_it() {
        for (allowed, given, covers) in [
            ("https://runner.example/v1", "https://runner.example/v1", true),
            ("https://runner.example/v1", "https://runner.example/v1/", true),
            ("https://runner.example/v1/", "https://runner.example:443/v1/team", true),
            ("https://runner.example", "https://runner.example/v1", true),
            ("https://runner.example", "https://runner.example.net/v1", false),
            ("https://runner.example", "https://runner.example:8443/v1", false),
            ("https://runner.example", "http://runner.example/v1", false),
            ("https://runner.example/v1", "https://runner.example/v12", false),
            ("https://runner.example/v1", "https://runner.example", false),
        ] {
            assert_eq!(url(allowed).covers(&url(given)), covers, "{allowed} {given}");
        }
    }

    #[test]
    fn addresses_of_this_machine_and_its_neighbours_are_local_however_they_are_written() {
        for (address, local) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:169.254.169.254", true),
            ("::127.0.0.1", true),
            ("64:ff9b::a9fe:a9fe", true),
            ("fd00:ec2::254", true),
            ("10.0.0.1", false),
            ("192.168.1.1", false),
            ("fd00::1", false),
            ("93.184.216.34", false),
            ("64:ff9b::5db8:d822", false),
        ] {
            assert_eq!(is_local(address.parse().unwrap()), local, "{address}");
        }
        for (address, many) in
            [("224.0.0.1", true), ("255.255.255.255", true), ("ff02::1", true), ("10.0.0.1", false)]
        {
            assert_eq!(is_many(address.parse().unwrap()), many, "{address}");
        }
    }
}
