//! A kubelet that knows logs and nothing else. The fake nodes have none, and whoever reads a log is
//! sent to the kubelet of the pod's node.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Bed,
    error::{Context as _, Result},
    objects,
    pki::Authority,
    proxy::acceptor,
};

/// Longest head of a request that is read: the API server's are a tenth of it.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Serves until it is dropped.
pub struct Kubelet(JoinHandle<()>);

impl Kubelet {
    /// Becomes the kubelet of a node. Every log that it gives is the line by which it was asked for.
    pub async fn serve(bed: &Bed, node: &str) -> Result<Self> {
        let acceptor = acceptor(&Authority::new("kubelet")?)?;
        let listener =
            TcpListener::bind("127.0.0.1:0").await.context(|| "listen for logs".to_owned())?;
        let port = listener.local_addr().context(|| "read the kubelet's port".to_owned())?.port();
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        objects::api(&bed.client, "", "node")
            .patch_status(node, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .context(|| format!("say where the kubelet of {node} is"))?;
        Ok(Self(tokio::spawn(accept(listener, acceptor))))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Whoever asked sees that there is no answer.
            let _ = answer(stream, acceptor).await;
        });
    }
}

async fn answer(stream: TcpStream, acceptor: TlsAcceptor) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let asked = head.split(' ').nth(1).unwrap_or_default();
    let log = format!("{asked}\n");
    let length = log.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(log.as_bytes()).await?;
    stream.shutdown().await
}
