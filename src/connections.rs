//! Accepting connections, a bounded number at a time.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

/// Pause after the machine refused a connection, for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Has `converse` serve each connection, at most `places` at a time; more wait. Goes on until it is
/// dropped, which closes every connection.
pub async fn serve<F>(
    listener: TcpListener,
    places: usize,
    converse: impl Fn(TcpStream) -> F,
) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(places));
    let mut connections = JoinSet::new();
    loop {
        // Ended connections are collected here, so the set is as bounded as the places are.
        while connections.try_join_next().is_some() {}
        let place = Arc::clone(&places).acquire_owned().await; // nobody closes the semaphore
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let conversation = converse(stream);
        connections.spawn(async move {
            conversation.await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn no_more_are_served_at_a_time_than_there_are_places() {
        const PLACES: usize = 3;
        const CLIENTS: usize = 12;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = tokio::spawn({
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                serve(listener, PLACES, |mut stream| {
                    let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                    async move {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let mut word = [0; 2];
                        // A client that went away has had its turn too.
                        let _ = stream.read_exact(&mut word).await;
                        sleep(Duration::from_millis(20)).await;
                        now.fetch_sub(1, Ordering::SeqCst);
                        let _ = stream.write_all(&word).await;
                    }
                })
                .await
            }
        });
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"hi").await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            });
        }
        let answers = clients.join_all().await;
        assert!(answers.iter().all(|answer| answer == "hi"), "{answers:?}");
        assert_eq!(most.load(Ordering::SeqCst), PLACES, "all places were used, and no more");
        server.abort();
    }
}
