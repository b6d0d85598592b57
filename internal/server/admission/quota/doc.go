// Package quota is the ResourceQuota admission plugin over upstream's evaluator.
//
// Upstream's plugin remembers the last 100 quotas it has charged and has five
// workers. With a quota in every space, a request would often be charged against
// a quota the informers have not caught up with, and refused as a conflict. The
// accessor here remembers every quota until the informers have it, and reads a
// quota again when somebody else has changed it.
package quota
