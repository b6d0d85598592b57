// Package follow keeps indexes of objects that exist in many spaces under one name, which the
// caches of client-go would take for one object. It reads them by a client of metadata or, in
// the process, from the storage that serves them: without a client, and before the server serves.
package follow
