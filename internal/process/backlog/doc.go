// Package backlog has tenants take turns in a queue. The unit of the queue is the tenant, which is in it once, however
// much there is to do for it: that is in its backlog.
package backlog
