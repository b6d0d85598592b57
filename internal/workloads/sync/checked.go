package sync

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// checked keeps why Ingresses and HTTPRoutes of spaces must not be on the host, for as long as they are there, so that one is not read again each time
// that others leave room, of which each tenant has as many as it stores.
type checked struct {
	mu     sync.Mutex
	byItem map[item]checkedVersion
}

// checkedVersion is what is known of one version of an object, by some rules.
type checkedVersion struct {
	uid     types.UID
	version string
	rules   translate.Rules
	// why is empty if it may be there.
	why string
}

func newChecked() *checked { return &checked{byItem: map[item]checkedVersion{}} }

// why returns why an object must not be on the host, empty if it may be there. check says so.
func (c *checked) why(i item, of metav1.Object, rules translate.Rules, check func() error) string {
	c.mu.Lock()
	known := c.byItem[i]
	c.mu.Unlock()
	if known.uid == of.GetUID() && known.version == of.GetResourceVersion() && equality.Semantic.DeepEqual(known.rules, rules) {
		return known.why
	}
	now := checkedVersion{uid: of.GetUID(), version: of.GetResourceVersion(), rules: rules}
	if err := check(); err != nil {
		now.why = shortened(err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byItem[i] = now
	return now.why
}

// forget forgets an object that is gone.
func (c *checked) forget(i item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byItem, i)
}
