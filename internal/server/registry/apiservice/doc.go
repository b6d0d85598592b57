// Package apiservice shows the APIServices of what a space serves in the space,
// without storing them: clients discover the API of a cluster there. They cannot be
// changed. Those of the system space are the aggregator's and not handled here.
package apiservice
