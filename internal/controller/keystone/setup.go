package keystone

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
)

const (
	// minBackoff and maxBackoff bound the time after which a run that failed is tried again.
	minBackoff, maxBackoff = 5 * time.Second, 5 * time.Minute
	// domainRetry is after what time at most a run is repeated that failed in a domain.
	domainRetry = time.Minute
	// patience is for how much longer lists are waited for than other answers.
	patience = 6
)

// Setup adds the controller to a manager whose configuration names the system space. path is
// that of the KeystoneConfiguration, empty if there is none.
func Setup(mgr manager.Manager, path string) error {
	w, err := newWriter(mgr.GetConfig(), mgr.GetScheme())
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Events: mgr.GetEventRecorder("tenantry-keystone-sync"), Cloud: (&source{path: path}).cloud,
		now: time.Now, cluster: w,
	}
	return builder.ControllerManagedBy(mgr).
		Named("keystone-sync").
		For(&v1alpha1.KeystoneSync{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		}).
		Complete(r)
}

// source is the Keystone of a configuration, whose files are read again for each run.
type source struct {
	path string

	mu     sync.Mutex
	files  *keystone.Files
	client *keystone.Client
}

func (s *source) cloud() (cloud, string, error) {
	if s.path == "" {
		return nil, "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := keystone.ReadFiles(s.path)
	if err != nil {
		return nil, "", err
	}
	if !files.Equal(s.files) {
		if s.client, err = files.Client(patience * files.Configuration.RequestTimeout.Duration); err != nil {
			return nil, "", err
		}
		s.files = files
	}
	return s.client, files.Configuration.Name, nil
}
