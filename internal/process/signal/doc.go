// Package signal tells those who wait that something has changed, or that time has passed. It must not know what for.
package signal
