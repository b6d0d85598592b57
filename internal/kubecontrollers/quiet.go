package kubecontrollers

import (
	"context"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/spaces"
)

// Quiet returns a handler of errors that logs what is only postponed, because it is the turn of other tenants, with
// verbosity 4 alone. Upstream's garbage collector logs it for each object at each attempt: a tenant that deletes an
// owner of 4,000 objects by foreground wrote 300 MB of logs so.
func Quiet(handler utilruntime.ErrorHandler) utilruntime.ErrorHandler {
	return func(ctx context.Context, err error, msg string, keysAndValues ...any) {
		if err != nil && strings.Contains(err.Error(), spaces.ErrNotInTurn.Error()) && !klog.V(4).Enabled() {
			return
		}
		handler(ctx, err, msg, keysAndValues...)
	}
}
