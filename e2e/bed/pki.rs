//! Certificates of a throw-away control plane: made at its start, gone with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::error::{Context as _, Result};

/// A certificate authority that signs for one control plane or one proxy.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM and DER.
pub struct Identity {
    /// PEM of the certificate.
    pub certificate_pem: String,
    /// PEM (PKCS #8) of the key.
    pub key_pem: String,
    /// DER of the certificate.
    pub certificate_der: Vec<u8>,
    /// DER (PKCS #8) of the key.
    pub key_der: Vec<u8>,
}

fn named(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

impl Authority {
    /// A new authority with an ECDSA P-256 key.
    pub fn new(common_name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(common_name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context(|| "make a key".to_owned())?;
        let issuer = CertifiedIssuer::self_signed(params, key)
            .context(|| format!("make the authority {common_name}"))?;
        Ok(Self { issuer })
    }

    /// PEM of the authority's own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate().context(|| "make a key".to_owned())?;
        let certificate =
            params.signed_by(&key, &self.issuer).context(|| "sign a certificate".to_owned())?;
        Ok(Identity {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate_der: certificate.der().to_vec(),
            key_der: key.serialize_der(),
        })
    }

    /// A server's identity under these names and addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params =
            CertificateParams::new(names).context(|| "name a server certificate".to_owned())?;
        params.distinguished_name = named("punctual-e2e-server", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.sign(&params)
    }

    /// A client's identity: `common_name` is the user, `organization` its group.
    pub fn client(&self, common_name: &str, organization: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(common_name, organization);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.sign(&params)
    }
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key`.
    pub fn write(&self, dir: &Path, name: &str) -> Result<()> {
        write(dir, &format!("{name}.crt"), &self.certificate_pem)?;
        write(dir, &format!("{name}.key"), &self.key_pem)?;
        Ok(())
    }
}

/// The files that kube-apiserver and its clients read.
pub struct Pki {
    dir: PathBuf,
}

/// User of the person at the keyboard; its group may do everything.
pub const ADMIN: &str = "admin";
/// Clients of the API server: file name, user, group.
const CLIENTS: [(&str, &str, Option<&str>); 4] = [
    (ADMIN, "punctual-e2e-admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kwok", "punctual-e2e-kwok", Some("system:masters")),
];

impl Pki {
    /// Makes everything in `dir`.
    pub fn create(dir: PathBuf) -> Result<Self> {
        fs::create_dir_all(&dir).context(|| format!("make {}", dir.display()))?;
        let authority = Authority::new("punctual-e2e-ca")?;
        write(&dir, "ca.crt", &authority.pem())?;
        authority
            .server(&[
                "localhost",
                "kubernetes.default",
                "kubernetes.default.svc",
                "127.0.0.1",
                "10.96.0.1",
            ])?
            .write(&dir, "server")?;
        for (name, user, group) in CLIENTS {
            authority.client(user, group)?.write(&dir, name)?;
        }
        let service_accounts = KeyPair::generate().context(|| "make a key".to_owned())?;
        write(&dir, "sa.key", &service_accounts.serialize_pem())?;
        write(&dir, "sa.pub", &service_accounts.public_key_pem())?;
        Ok(Self { dir })
    }

    /// Path of one of the files.
    pub fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}

fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).context(|| format!("write {}", path.display()))
}

/// A certificate's DER as PEM (RFC 7468).
pub fn certificate_pem(der: &[u8]) -> String {
    // Kubernetes' byte strings are base64 in JSON: no library of our own for this one place.
    let value = serde_json::to_value(ByteString(der.to_vec())).expect("bytes are JSON");
    let base64 = value.as_str().unwrap_or_default().to_owned();
    let lines: Vec<&str> = base64
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
        .collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_survives_the_way_to_der_and_back() {
        let authority = Authority::new("round-trip").unwrap();
        let identity = authority.server(&["localhost"]).unwrap();
        let ours = certificate_pem(&identity.certificate_der);
        let squeeze =
            |pem: &str| pem.lines().filter(|line| !line.starts_with('-')).collect::<String>();
        assert_eq!(squeeze(&ours), squeeze(&identity.certificate_pem));
    }
}
