// Package apiservice shows in each space the APIServices of what the space serves,
// without storing them: clients look there for what a cluster serves. They cannot be
// changed. Those of the system space are the aggregator's and not looked at here.
package apiservice
