// Package follow keeps an index of what the server itself stores, by reading the
// storage in the process: without a client, and before the server serves.
package follow
