package user

import (
	"time"

	"github.com/tenantry/tenantry/internal/process/backlog"
	"github.com/tenantry/tenantry/internal/tenant"
)

// minBackoff and maxBackoff bound the time after which what has failed is tried again.
const minBackoff, maxBackoff = 100 * time.Millisecond, time.Minute

// item is what is to be looked at in a space: a User or, if there is a namespace, what belongs
// to the User there.
type item struct {
	uid, namespace string
	// after is the namespace up to which a User that is being deleted is done with.
	after string
	// failed is whether something has failed in one of these.
	failed bool
}

func newBacklog() *backlog.Backlog[tenant.Name, item] {
	return backlog.New[tenant.Name, item](minBackoff, maxBackoff)
}
