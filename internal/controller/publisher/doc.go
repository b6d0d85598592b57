// Package publisher has the clients with which the operator writes into spaces what tenants may not change.
package publisher
