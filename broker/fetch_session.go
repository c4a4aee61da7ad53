package broker

// fetchSessions are the incremental fetch sessions of all clients (KIP-227). The zero value is ready.
type fetchSessions struct{}
