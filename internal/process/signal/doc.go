// Package signal tells those who wait that something has changed. It must not know what.
package signal
