package clusterip

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	svcapi "k8s.io/kubernetes/pkg/api/service"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	svcreg "k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// fieldManager owns what servers write on the host.
	fieldManager = "tenantry-server"
	// requestTimeout is how long one request of the host may take.
	requestTimeout = 5 * time.Second
	// defaultPatience is how long a creation waits for its namespace on the host, or for the end of its predecessor there.
	defaultPatience = 2 * time.Second
	// pause is the time between the first two attempts. Each one after that is half as long again, for the host makes
	// and takes away addresses for each.
	pause = 50 * time.Millisecond
	// retryAfter is after how many seconds a client tries again.
	retryAfter = 2
	// conflicts is how often a change is tried that others get before.
	conflicts = 3
)

// services makes the host's Services.
type services struct {
	config Config
	host   coreclient.ServicesGetter
	// patience is how long a creation waits for what is to come, or to go, on the host.
	patience time.Duration
	limits   *limits
	// granting has the hooks that take what the host has chosen.
	granting *registry.Store
	// get reads a Service of the request's space.
	get func(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
}

// create checks a new Service of a space, and has the host asked for what it has when all else have agreed.
func (s *services) create(ctx context.Context, n tenant.Name, t *transaction, service *core.Service, dryRun bool) error {
	delete(service.Annotations, names.HostUIDAnnotation)
	wanted, err := s.checked(ctx, n, service, nil)
	if err != nil || dryRun {
		return err
	}
	t.ask = func(ctx context.Context) error { return s.createOnHost(ctx, n, t, service, wanted) }
	return nil
}

// createOnHost has the host choose what a new Service of a space has, and notes it there.
func (s *services) createOnHost(ctx context.Context, n tenant.Name, t *transaction, service *core.Service, wanted func(names.Namespace) *corev1.Service) error {
	if _, err := s.get(ctx, service.Name, &metav1.GetOptions{}); err == nil {
		return apierrors.NewAlreadyExists(core.Resource("services"), service.Name)
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	home, err := s.config.HomeOf(ctx, n, genericapirequest.NamespaceValue(ctx))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	host := wanted(home)
	if err := s.limits.allow(n, service, nil, host); err != nil {
		return err
	}
	onHost, lost, err := s.place(ctx, home, host)
	if err == nil || lost {
		uid := service.UID
		t.onFailure(home, service.Name, func(ctx context.Context) error { return s.remove(ctx, home, service.Name, uid, lost) })
	}
	if err != nil {
		return err
	}
	return take(service, onHost)
}

// checked checks a Service as the storage will, before the host has it, and returns what makes the host's.
// before is nil for a new one.
func (s *services) checked(ctx context.Context, n tenant.Name, service, before *core.Service) (func(names.Namespace) *corev1.Service, error) {
	probe := service.DeepCopy()
	errs, err := s.validate(ctx, probe, before)
	if err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(core.Kind("Service"), service.Name, errs)
	}
	asked, err := versioned(service)
	if err != nil {
		return nil, err
	}
	complete, err := versioned(probe)
	if err != nil {
		return nil, err
	}
	was, err := versioned(before)
	if err != nil {
		return nil, err
	}
	rules := s.config.Rules(n)
	// Admission has looked at it, but webhooks may have changed it since.
	if errs := rules.CheckServiceChange(asked, was); len(errs) > 0 {
		return nil, forbidden(service.Name, errs.ToAggregate().Error())
	}
	return func(home names.Namespace) *corev1.Service {
		host := rules.Service(asked, home)
		host.Annotations[names.HashAnnotation] = rules.Service(complete, home).Annotations[names.HashAnnotation]
		return host
	}, nil
}

// versioned returns a Service in the version of the host, an ExternalName, which nothing is wrong with, for none.
func versioned(service *core.Service) (*corev1.Service, error) {
	var out corev1.Service
	if service == nil {
		out.Spec.Type = corev1.ServiceTypeExternalName
		return &out, nil
	}
	if err := corev1conversion.Convert_core_Service_To_v1_Service(service.DeepCopy(), &out, nil); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the Service: %w", err))
	}
	return &out, nil
}

// validate makes of a Service what the storage would, as in a dry run, and returns what is wrong with it.
func (s *services) validate(ctx context.Context, probe, before *core.Service) (field.ErrorList, error) {
	if before == nil {
		finish, err := s.granting.BeginCreate(ctx, probe, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return nil, err
		}
		finish(ctx, false)
		svcreg.Strategy.PrepareForCreate(ctx, probe)
		return svcreg.Strategy.Validate(ctx, probe), nil
	}
	before = before.DeepCopy()
	finish, err := s.granting.BeginUpdate(ctx, probe, before, &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, err
	}
	finish(ctx, false)
	svcreg.Strategy.PrepareForUpdate(ctx, probe, before)
	return svcreg.Strategy.ValidateUpdate(ctx, probe, before), nil
}

// place creates a Service on the host. It waits for its namespace, and for a predecessor of its name to go. With an
// error, lost is whether the host may have made it nevertheless.
func (s *services) place(request context.Context, home names.Namespace, wanted *corev1.Service) (placed *corev1.Service, lost bool, err error) {
	var waits error
	asked, there := false, false
	err = s.patiently(request, func(ctx context.Context) (bool, error) {
		if there {
			if placed, there, err = s.existing(ctx, home, wanted); there || err != nil {
				return placed != nil, err
			}
		}
		// Not ctx: a Create that has been sent may still succeed, so it has the time of one request.
		created, err := s.host.Services(wanted.Namespace).Create(request, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		lost = isLost(err)
		switch {
		case err == nil:
			placed = created
			return true, nil
		case apierrors.IsAlreadyExists(err):
			placed, there, err = s.existing(ctx, home, wanted)
			waits = unavailable("the Service of this name that there was before is still on the host cluster")
			return placed != nil, err
		case isNoPlace(err):
			waits = unavailable("the host cluster has no place for Services of this namespace yet")
			klog.FromContext(ctx).V(2).Info("Waiting for a namespace of the host cluster", "namespace", wanted.Namespace, "err", err)
			if !asked {
				asked = true
				return false, s.config.Want(ctx, home.Tenant, home.Name)
			}
			return false, nil
		default:
			return false, refusal(ctx, home, wanted.Name, err)
		}
	})
	switch {
	case err == nil:
		return placed, false, nil
	case waits != nil && wait.Interrupted(err):
		return nil, lost, waits
	case wait.Interrupted(err):
		return nil, lost, unavailable("the host cluster, which gives Services their addresses, does not answer")
	default:
		return nil, lost, err
	}
}

// patiently tries again until it is done, or has failed, or the patience is at its end.
func (s *services) patiently(ctx context.Context, try wait.ConditionWithContextFunc) error {
	next, gap := time.Time{}, pause
	return wait.PollUntilContextTimeout(ctx, pause, s.patience, true, func(ctx context.Context) (bool, error) {
		now := time.Now()
		if now.Before(next) {
			return false, nil
		}
		next, gap = now.Add(gap), gap*3/2
		return try(ctx)
	})
}

// existing reports whether the host has a Service in the place of a new one. It returns that if it is this one, of
// which an answer was lost, and none if it is a predecessor.
func (s *services) existing(ctx context.Context, home names.Namespace, wanted *corev1.Service) (placed *corev1.Service, there bool, err error) {
	found, err := s.host.Services(wanted.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil && ctx.Err() != nil:
		return nil, true, ctx.Err() // the wait is over, and the host has been reached before
	case err != nil:
		return nil, true, refusal(ctx, home, wanted.Name, err)
	case !home.Has(found, wanted.Name):
		return nil, true, forbidden(wanted.Name, "the host cluster has another Service in its place; whoever administers the host is to remove it")
	case found.Annotations[names.UIDAnnotation] != wanted.Annotations[names.UIDAnnotation]:
		return nil, true, nil
	default:
		return found, true, nil
	}
}

// update checks a changed Service, and has the host asked for what it had not when all else have agreed.
func (s *services) update(ctx context.Context, n tenant.Name, t *transaction, service, before *core.Service) error {
	wanted, err := s.checked(ctx, n, service, before)
	if err != nil {
		return err
	}
	t.ask = func(ctx context.Context) error { return s.changeOnHost(ctx, n, t, service, before, wanted) }
	return nil
}

// changeOnHost has the host choose what a changed Service has that it had not.
func (s *services) changeOnHost(ctx context.Context, n tenant.Name, t *transaction, service, before *core.Service, wanted func(names.Namespace) *corev1.Service) error {
	home, err := s.config.HomeOf(ctx, n, genericapirequest.NamespaceValue(ctx))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	host := wanted(home)
	if err := s.limits.allow(n, service, before, host); err != nil {
		return err
	}
	host.Annotations[names.ChangeAnnotation] = time.Now().UTC().Format(time.RFC3339Nano)
	for range conflicts {
		var onHost *corev1.Service
		if onHost, err = s.replace(ctx, t, home, host, before); err == nil {
			return take(service, onHost)
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return refusal(ctx, home, service.Name, err)
}

// replace replaces the Service of the host that is made of before. One that another request changes is that one's:
// there would be nothing to put back that is in a space.
func (s *services) replace(ctx context.Context, t *transaction, home names.Namespace, host *corev1.Service, before *core.Service) (*corev1.Service, error) {
	there, err := s.host.Services(host.Namespace).Get(ctx, host.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !home.Has(there, host.Name) || there.Annotations[names.UIDAnnotation] != string(before.UID) {
		return nil, apierrors.NewNotFound(core.Resource("services"), host.Name)
	}
	if there.Annotations[names.ChangeAnnotation] != "" {
		if same, err := s.isSame(there, before, home); err != nil {
			return nil, err
		} else if !same {
			return nil, apierrors.NewConflict(core.Resource("services"), host.Name, errors.New("another request changes it"))
		}
	}
	host = host.DeepCopy() // it is tried again
	host.UID, host.ResourceVersion = there.UID, there.ResourceVersion
	translate.KeepHosts(host, there)
	replaced, err := s.host.Services(host.Namespace).Update(ctx, host, metav1.UpdateOptions{FieldManager: fieldManager})
	if err == nil || isLost(err) {
		t.onFailure(home, host.Name, func(ctx context.Context) error {
			return s.restore(ctx, home, there, before.UID, host.Annotations[names.ChangeAnnotation])
		})
	}
	return replaced, err
}

// isSame reports whether a Service of the host is as one of a space.
func (s *services) isSame(there *corev1.Service, service *core.Service, home names.Namespace) (bool, error) {
	own, err := versioned(service)
	if err != nil {
		return false, err
	}
	wanted := s.config.Rules(home.Tenant).Service(own, home)
	return there.Annotations[names.HashAnnotation] == wanted.Annotations[names.HashAnnotation] && translate.GivenOf(there).Equal(translate.GivenOf(wanted)), nil
}

// take puts what the host has chosen into a Service of a space.
func take(service *core.Service, onHost *corev1.Service) error {
	var chosen core.Service
	if err := corev1conversion.Convert_v1_Service_To_core_Service(onHost.DeepCopy(), &chosen, nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading the host's Service: %w", err))
	}
	if len(chosen.Spec.Ports) != len(service.Spec.Ports) {
		return apierrors.NewInternalError(errors.New("the host's Service has other ports"))
	}
	service.Spec.ClusterIP, service.Spec.ClusterIPs = chosen.Spec.ClusterIP, chosen.Spec.ClusterIPs
	service.Spec.IPFamilies, service.Spec.IPFamilyPolicy = chosen.Spec.IPFamilies, chosen.Spec.IPFamilyPolicy
	service.Spec.HealthCheckNodePort = chosen.Spec.HealthCheckNodePort
	for i := range chosen.Spec.Ports {
		service.Spec.Ports[i].NodePort = chosen.Spec.Ports[i].NodePort
	}
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations[names.HostUIDAnnotation] = string(onHost.UID)
	return nil
}

// chooses reports whether a change of a Service leaves something to the host's choice, or asks it for something.
func chooses(service, before *core.Service) bool {
	now, was := &service.Spec, &before.Spec
	if now.Type != was.Type || len(now.IPFamilies) > 0 && !slices.Equal(now.IPFamilies, was.IPFamilies) ||
		now.IPFamilyPolicy != nil && (was.IPFamilyPolicy == nil || *now.IPFamilyPolicy != *was.IPFamilyPolicy) {
		return true
	}
	if svcapi.NeedsHealthCheck(service) && (!svcapi.NeedsHealthCheck(before) || now.HealthCheckNodePort != 0 && now.HealthCheckNodePort != was.HealthCheckNodePort) {
		return true
	}
	allocates := now.Type == core.ServiceTypeNodePort || now.Type == core.ServiceTypeLoadBalancer && ptr.Deref(now.AllocateLoadBalancerNodePorts, true)
	ports := map[string]int32{}
	for _, port := range was.Ports {
		ports[port.Name] = port.NodePort
	}
	return slices.ContainsFunc(now.Ports, func(port core.ServicePort) bool {
		has := ports[port.Name]
		return allocates && has == 0 || port.NodePort != 0 && port.NodePort != has
	})
}

// isLost reports whether an error leaves open whether the host has done what it was asked for.
func isLost(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// noBalancers is what the policy of config/workloads says of a namespace without names.LoadBalancersLabel.
const noBalancers = "load balancers are in namespaces with the label " + names.LoadBalancersLabel + " alone"

// awaitsGrant reports whether the host has not been told yet that a tenant may have load balancers.
func awaitsGrant(err error) bool { return err != nil && strings.Contains(err.Error(), noBalancers) }

// isNoPlace reports whether there is no namespace on the host, or none in which there are rights, or whether it is
// going.
func isNoPlace(err error) bool {
	return apierrors.IsNotFound(err) || awaitsGrant(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), `cannot create resource "services"`)
}

// refusal returns what the client is told of an error of the host.
func refusal(ctx context.Context, home names.Namespace, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case awaitsGrant(err):
		return unavailable("the host cluster does not know yet that this Tenant may have load balancers")
	case apierrors.IsInvalid(err):
		return err // it has the name and the fields of the space's
	case apierrors.IsForbidden(err):
		return forbidden(name, "the host cluster does not take it: "+strings.ReplaceAll(err.Error(), home.Host(), home.Name))
	case apierrors.IsConflict(err):
		return apierrors.NewConflict(core.Resource("services"), name, errors.New("it changes on the host cluster; try again"))
	case apierrors.IsNotFound(err):
		return unavailable("it is not on the host cluster now")
	default:
		klog.FromContext(ctx).Error(err, "Asking the host cluster about a Service", "namespace", home.Host(), "name", name)
		return unavailable("the host cluster, which gives Services their addresses, cannot be reached")
	}
}

func forbidden(name, reason string) error {
	return apierrors.NewForbidden(core.Resource("services"), name, errors.New(reason))
}

// unavailable is an error after which a client tries again.
func unavailable(reason string) error {
	err := apierrors.NewServiceUnavailable(reason + "; try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return err
}
