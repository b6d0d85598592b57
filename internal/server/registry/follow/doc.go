// Package follow keeps an index of objects that the server itself stores, by watching the
// storage in the process: without a client, and before the server serves.
package follow
