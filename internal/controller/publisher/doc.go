// Package publisher has the clients with which the manager writes into spaces what tenants may not change.
package publisher
