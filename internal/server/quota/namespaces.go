package quota

import (
	"context"

	"github.com/tenantry/tenantry/internal/server/admission/view"
	"github.com/tenantry/tenantry/internal/server/storage"

	"k8s.io/apimachinery/pkg/runtime"
)

// evaluateNamespace asks upstream's evaluator about a change on flattened names.
func (l *Ledger) evaluateNamespace(ctx context.Context, change storage.Change, namespace string, dryRun bool) error {
	after, err := flatten(change.Tenant, change.New)
	if err != nil {
		return err
	}
	var before runtime.Object
	if change.Old != nil {
		if before, err = flatten(change.Tenant, change.Old); err != nil {
			return err
		}
	}
	err = l.namespaces.Evaluate(attributes(subresource(ctx), change, before, after, namespace, dryRun))
	return view.PlainError(err, change.Tenant)
}
