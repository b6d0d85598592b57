package clusterip

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// transaction is what one request has written on the host, and is to write.
type transaction struct {
	// undo takes back what the host has made or changed, or may have.
	undo []func(context.Context)
	// ask asks the host for what it is to choose of the request's Service, and puts that there. Nil if there is nothing.
	ask func(context.Context) error
}

type transactionKey struct{}

func withTransaction(ctx context.Context, t *transaction) context.Context {
	return context.WithValue(ctx, transactionKey{}, t)
}

// askHost asks the host, if there is something to ask for.
func (t *transaction) askHost(ctx context.Context) error {
	if t.ask == nil {
		return nil
	}
	return t.ask(ctx)
}

// begin returns the transaction of the request of ctx, without what an attempt has written that was not stored: the
// next one may be about another Service.
func begin(ctx context.Context) (*transaction, error) {
	t, ok := ctx.Value(transactionKey{}).(*transaction)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("a Service is written by something that does not ask the host, and take back what it has made"))
	}
	t.ask = nil
	t.rollBack(ctx) // an attempt that was not stored
	return t, nil
}

// onFailure has what was written of a Service of the host taken back if it is not stored.
func (t *transaction) onFailure(home names.Namespace, name string, undo func(context.Context) error) {
	t.undo = append(t.undo, func(ctx context.Context) {
		if err := undo(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Taking back what was written of a Service of the host cluster; the syncer will", "namespace", home.Host(), "name", name)
		}
	})
}

// finish rolls back if the request has failed.
func (t *transaction) finish(ctx context.Context, err error) {
	if err != nil {
		t.rollBack(ctx)
	}
}

// rollBack deletes what was made on the host, and restores what was changed, but for what is stored after all: an
// answer of etcd may have been lost. What cannot be known is left to the syncer.
func (t *transaction) rollBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	for _, undo := range t.undo {
		undo(ctx)
	}
	t.undo = nil
}

// remove deletes the Service of the host that was made for one with a UID, unless that is stored. lost is that the host
// has not answered, and may be about to make it.
func (s *services) remove(ctx context.Context, home names.Namespace, name string, uid types.UID, lost bool) error {
	stored, err := s.stored(ctx, name)
	if err != nil || stored != nil && stored.UID == uid {
		return err
	}
	patience := time.Duration(0)
	if lost {
		patience = s.patience
	}
	client := s.host.Services(home.Host())
	return wait.PollUntilContextTimeout(ctx, pause, patience, true, func(context.Context) (bool, error) {
		there, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return !lost, nil
		case err != nil:
			return false, err
		case !home.Has(there, name) || there.Annotations[names.UIDAnnotation] != string(uid):
			return true, nil
		}
		err = client.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(there.UID)))
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return err == nil, err
	})
}

// stored returns a Service as the request's space has it, nil if it has none.
func (s *services) stored(ctx context.Context, name string) (*core.Service, error) {
	obj, err := s.get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking whether it is stored: %w", err)
	}
	service, _ := obj.(*core.Service)
	return service, nil
}

// restore makes the Service of the host what it was before a change with a stamp, for one with a UID, unless the space
// has the change, or the host has another one by now.
func (s *services) restore(ctx context.Context, home names.Namespace, before *corev1.Service, uid types.UID, stamp string) error {
	client := s.host.Services(home.Host())
	there, err := client.Get(ctx, before.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case there.UID != before.UID || there.Annotations[names.ChangeAnnotation] != stamp:
		return nil
	}
	stored, err := s.stored(ctx, before.Name)
	if err != nil || stored == nil || stored.UID != uid {
		return err // one that is gone the syncer deletes
	}
	if same, err := s.isSame(there, stored, home); err != nil || same {
		return err
	}
	restored := before.DeepCopy()
	restored.ResourceVersion = there.ResourceVersion
	translate.KeepHosts(restored, there)
	_, err = client.Update(ctx, restored, metav1.UpdateOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another's by now
	}
	return err
}
