package translate

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestFields fails for every field of a PodSpec, ServiceSpec, PersistentVolumeClaimSpec, IngressSpec or HTTPRouteSpec,
// and of every type below it that reaches a host, about which nobody has decided, and for what is decided about fields
// that are not there.
func TestFields(t *testing.T) {
	expectDecided(t, fields, reflect.TypeFor[corev1.PodSpec](), reflect.TypeFor[corev1.ServiceSpec](), reflect.TypeFor[corev1.PersistentVolumeClaimSpec](),
		reflect.TypeFor[networkingv1.IngressSpec](), reflect.TypeFor[gatewayv1.HTTPRouteSpec]())
}

// own fields of a status are the space's, whatever the host's pod has.
const own treatment = "own"

// statusFields is what Status makes of each field of a host's pod.
var statusFields = map[reflect.Type]map[string]treatment{
	reflect.TypeFor[corev1.PodStatus](): merged(
		all(same, "Phase", "HostIP", "HostIPs", "PodIP", "PodIPs", "StartTime", "Resize", "AllocatedResources", "Resources"),
		all(changed, "ObservedGeneration", "Conditions", "Message", "Reason", "InitContainerStatuses", "ContainerStatuses", "EphemeralContainerStatuses"),
		all(own, "QOSClass", "NominatedNodeName", "ResourceClaimStatuses", "ExtendedResourceClaimStatus", "NodeAllocatableResourceClaimStatuses", "VolumeHealth")),
	reflect.TypeFor[corev1.PodCondition](): merged(
		all(same, "Type", "Status", "LastProbeTime", "Reason"), all(changed, "ObservedGeneration", "LastTransitionTime", "Message")),
	reflect.TypeFor[corev1.ContainerStatus](): merged(
		all(changed, "Name", "State", "LastTerminationState", "AllocatedResourcesStatus"), all(same, "Ready", "RestartCount", "Image", "ImageID", "ContainerID", "Started",
			"AllocatedResources", "Resources", "VolumeMounts", "User", "StopSignal")),
	reflect.TypeFor[corev1.ContainerState]():           all(changed, "Waiting", "Running", "Terminated"),
	reflect.TypeFor[corev1.ContainerStateWaiting]():    {"Reason": same, "Message": changed},
	reflect.TypeFor[corev1.ContainerStateRunning]():    {"StartedAt": same},
	reflect.TypeFor[corev1.ContainerStateTerminated](): merged(all(same, "ExitCode", "Signal", "Reason", "StartedAt", "FinishedAt", "ContainerID"), all(changed, "Message")),
	reflect.TypeFor[corev1.ResourceRequirements]():     all(same, "Limits", "Requests", "Claims"),
	reflect.TypeFor[corev1.ResourceClaim]():            all(same, "Name", "Request"),
	reflect.TypeFor[corev1.ResourceStatus]():           all(same, "Name", "Resources"),
	reflect.TypeFor[corev1.ResourceHealth]():           all(same, "ResourceID", "Health", "Message"),
	reflect.TypeFor[corev1.VolumeMountStatus]():        all(same, "Name", "MountPath", "ReadOnly", "RecursiveReadOnly", "VolumeStatus"),
	reflect.TypeFor[corev1.VolumeStatus]():             all(same, "Image"),
	reflect.TypeFor[corev1.ImageVolumeStatus]():        all(same, "ImageRef"),
	reflect.TypeFor[corev1.ContainerUser]():            all(same, "Linux"),
	reflect.TypeFor[corev1.LinuxContainerUser]():       all(same, "UID", "GID", "SupplementalGroups"),
	reflect.TypeFor[corev1.HostIP]():                   all(same, "IP"),
	reflect.TypeFor[corev1.PodIP]():                    all(same, "IP"),
}

// TestStatusFields fails for every field of a PodStatus, and of every type below it, about which nobody has decided
// whether tenants may see the host's, and if they see what is the space's own.
func TestStatusFields(t *testing.T) {
	expectDecided(t, statusFields, reflect.TypeFor[corev1.PodStatus]())
	host := &corev1.Pod{}
	filled := reflect.ValueOf(&host.Status).Elem()
	for name, treated := range statusFields[filled.Type()] {
		if treated == own {
			fillOne(t, filled.FieldByName(name))
		}
	}
	status := reflect.ValueOf(Status(host, &corev1.Pod{}, names.Namespace{}, true))
	for name, treated := range statusFields[filled.Type()] {
		if treated == own && !status.FieldByName(name).IsZero() {
			t.Errorf("tenants see the host's %s", name)
		}
	}
}

// fillOne gives a value something that is not zero.
func fillOne(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("of the host")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("a %s cannot be filled", v.Kind())
	}
}

// expectDecided fails for fields of types, and of those below them that are passed on, that a table does not have, and
// for what a table has and they have not.
func expectDecided(t *testing.T, fields map[reflect.Type]map[string]treatment, types ...reflect.Type) {
	t.Helper()
	reached := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if reached[of] || values[of] {
			return
		}
		reached[of] = true
		table, known := fields[of]
		if !known {
			t.Errorf("the table does not have the type %s", of)
			return
		}
		names := map[string]bool{}
		for i := range of.NumField() {
			f := of.Field(i)
			names[f.Name] = true
			treated, known := table[f.Name]
			if !known {
				t.Errorf("the table does not have the field %s of %s", f.Name, of)
			}
			if treated == same || treated == changed {
				visit(f.Type)
			}
		}
		for name := range table {
			if !names[name] {
				t.Errorf("the table has the field %s of %s, which is not there", name, of)
			}
		}
	}
	for _, of := range types {
		visit(of)
	}
	for of := range fields {
		if !reached[of] {
			t.Errorf("the table has the type %s, which none of %s has", of, types)
		}
	}
}
