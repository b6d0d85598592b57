package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/controlplane/configuration"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

const (
	configurationVolume = "configuration"

	// mostConfiguration is what all files of a ControlPlane may have together, in bytes: a Secret
	// has 1 MiB at most.
	mostConfiguration = 1_000_000
)

// sections are the files of each section, as servers have them.
type sections map[configuration.Section]configuration.Files

// givenBy is who gives the files of a section.
type givenBy struct {
	section configuration.Section
	// field is that of the spec.
	field  string
	source v1alpha1.ConfigurationSource
}

// givenIn returns who gives the sections that a spec has.
func givenIn(spec *v1alpha1.ControlPlaneSpec) []givenBy {
	var all []givenBy
	if c := spec.Authentication; c != nil {
		all = append(all, givenBy{configuration.Authentication, "spec.authentication.configuration", c.Configuration})
	}
	if c := spec.Authorization; c != nil {
		all = append(all, givenBy{configuration.Authorization, "spec.authorization.configuration", c.Configuration})
	}
	if c := spec.Audit; c != nil {
		all = append(all, givenBy{configuration.Audit, "spec.audit.policy", c.Policy})
		if name := c.WebhookSecretName; name != "" {
			all = append(all, givenBy{configuration.AuditWebhook, "spec.audit", v1alpha1.ConfigurationSource{SecretName: name}})
		}
	}
	if c := spec.Admission; c != nil {
		all = append(all, givenBy{configuration.Admission, "spec.admission.configuration", c.Configuration})
	}
	if c := spec.Manager; c != nil {
		all = append(all, givenBy{configuration.Manager, "spec.manager.configuration", c.Configuration})
	}
	return all
}

// ensureConfiguration makes the Secret with the files by which servers and managers are
// configured. It is a copy of what has been checked: a section that has been spoilt, or whose
// object is gone, is as it was before, and a ControlPlane that never had it gets no servers.
func (r *Reconciler) ensureConfiguration(ctx context.Context, w *work) error {
	all, problems := sections{}, []error{w.remaining}
	add := func(section configuration.Section, files configuration.Files, err error) error {
		if conditions.IsProblem(err) {
			kept, readErr := r.copied(ctx, w, configurationName(w.cp))
			if readErr != nil {
				return readErr
			}
			if before := unpack(kept)[section]; configuration.Check(section, before) == nil {
				problems, files, err = append(problems, err), before, nil
			}
		}
		all[section] = files
		return err
	}
	for _, given := range givenIn(&w.cp.Spec) {
		files, err := r.files(ctx, w.cp, given)
		if err := add(given.section, files, err); err != nil {
			return err
		}
	}
	limits, err := tenantLimits(w.cp)
	if err := add(configuration.TenantLimits, limits, err); err != nil {
		return err
	}
	w.configured, w.remaining = all, cmp.Or(problems...)
	data := pack(all)
	if size := sizeOf(data); size > mostConfiguration {
		return conditions.Problemf(v1alpha1.ReasonConfigurationInvalid, "the configuration has %d bytes in all, and may have %d: make the files smaller", size, mostConfiguration)
	}
	return r.applyCopy(ctx, w, configurationName(w.cp), data)
}

// tenantLimits is the file with what Tenants of the host may ask for. There always is one.
func tenantLimits(cp *v1alpha1.ControlPlane) (configuration.Files, error) {
	content, err := yaml.Marshal(&configv1alpha1.TenantLimitsConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: "TenantLimitsConfiguration"},
		Limits:   ptr.Deref(cp.Spec.TenantLimits, v1alpha1.TenantLimits{}),
	})
	if err != nil {
		return nil, fmt.Errorf("writing spec.tenantLimits into a file: %w", err)
	}
	files := configuration.Files{configuration.TenantLimits.File(): content}
	if err := configuration.Check(configuration.TenantLimits, files); err != nil {
		return nil, conditions.Problemf(v1alpha1.ReasonConfigurationInvalid, "spec.tenantLimits: %v: correct it; servers go on with what they had",
			withoutFile(err, configuration.TenantLimits))
	}
	return files, nil
}

// files returns those of a section, which have been checked.
func (r *Reconciler) files(ctx context.Context, cp *v1alpha1.ControlPlane, given givenBy) (configuration.Files, error) {
	if inline := given.source.Inline; inline != nil {
		files := configuration.Files{given.section.File(): inline.Raw}
		if err := configuration.Check(given.section, files); err != nil {
			return nil, conditions.Problemf(v1alpha1.ReasonConfigurationInvalid, "%s.inline: %v: correct it; servers go on with what they had", given.field, withoutFile(err, given.section))
		}
		return files, nil
	}
	field, kind, object := given.field+".configMapName", "ConfigMap", client.Object(&corev1.ConfigMap{})
	name := given.source.ConfigMapName
	if given.source.SecretName != "" {
		field, kind, object, name = given.field+".secretName", "Secret", &corev1.Secret{}, given.source.SecretName
	}
	if given.section == configuration.AuditWebhook {
		field = given.field + ".webhookSecretName"
	}
	if err := r.given(ctx, cp, name, object); err != nil {
		if !errors.Is(err, errNotGiven) {
			return nil, fmt.Errorf("reading %s %q: %w", kind, name, err)
		}
		return nil, conditions.Problemf(v1alpha1.ReasonConfigurationMissing, "%s: there is no %s %q with the label %s=%s that the operator has not made: "+
			"create it with the key %s, or label it", field, kind, name, ofLabel, cp.Name, given.section.File())
	}
	files := filesOf(object)
	if err := configuration.Check(given.section, files); err != nil {
		return nil, conditions.Problemf(v1alpha1.ReasonConfigurationInvalid, "%s: %s %q: %v: correct it; servers go on with what they had", field, kind, name, err)
	}
	return files, nil
}

// withoutFile is an error of a file that has no name for who wrote it.
func withoutFile(err error, s configuration.Section) string {
	return strings.TrimPrefix(err.Error(), s.File()+": ")
}

// errNotGiven says that an object is not there, or not for the ControlPlane.
var errNotGiven = errors.New("it is not for this ControlPlane")

// IsGiven reports whether somebody has made an object for a ControlPlane, by the label, and not the operator. Anybody
// who may create ControlPlanes could otherwise have any Secret mounted into an image of theirs, or published.
func IsGiven(cp *v1alpha1.ControlPlane, object metav1.Object) bool {
	marks := object.GetLabels()
	return marks[ofLabel] == cp.Name && marks[managedLabel] != FieldManager
}

// given reads an object that somebody has made for a ControlPlane.
func (r *Reconciler) given(ctx context.Context, cp *v1alpha1.ControlPlane, name string, object client.Object) error {
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: cp.Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if apierrors.IsNotFound(err) || !IsGiven(cp, object) {
		return errNotGiven
	}
	return nil
}

// filesOf returns what a ConfigMap or a Secret has.
func filesOf(object client.Object) configuration.Files {
	switch o := object.(type) {
	case *corev1.Secret:
		return maps.Clone(o.Data)
	case *corev1.ConfigMap:
		files := configuration.Files{}
		maps.Copy(files, o.BinaryData)
		for name, content := range o.Data {
			files[name] = []byte(content)
		}
		return files
	}
	return nil
}

// pack returns the content of one Secret with all files. No section has a dot in its name.
func pack(all sections) map[string][]byte {
	data := map[string][]byte{}
	for section, files := range all {
		for name, content := range files {
			data[string(section)+"."+name] = content
		}
	}
	return data
}

// unpack returns the files that pack has put into a Secret.
func unpack(data map[string][]byte) sections {
	all := sections{}
	for key, content := range data {
		section, name, _ := strings.Cut(key, ".")
		s := configuration.Section(section)
		if all[s] == nil {
			all[s] = configuration.Files{}
		}
		all[s][name] = content
	}
	return all
}

func sizeOf(data map[string][]byte) int {
	size := 0
	for key, content := range data {
		size += len(key) + len(content)
	}
	return size
}

// only returns some of the sections.
func (all sections) only(wanted ...configuration.Section) sections {
	some := sections{}
	for _, s := range wanted {
		if files := all[s]; files != nil {
			some[s] = files
		}
	}
	return some
}

// ofServers are the sections that servers of their own read, and embedded ones all.
func (all sections) ofServers(cp *v1alpha1.ControlPlane) sections {
	if cp.Spec.Storage.Etcd == nil {
		return all
	}
	servers := maps.Clone(all)
	delete(servers, configuration.Manager)
	return servers
}

// configure says where the pods of a template run, and mounts sections into them. Other pods are
// made when there is something in these that a process reads at its start alone.
func configure(cp *v1alpha1.ControlPlane, template *applycorev1.PodTemplateSpecApplyConfiguration, some sections) error {
	if err := place(template.Spec, &cp.Spec.Pod); err != nil {
		return err
	}
	if len(some) == 0 {
		return nil
	}
	digest, err := configuration.Digest(some)
	if err != nil {
		return fmt.Errorf("comparing the configuration: %w", err)
	}
	source := applycorev1.SecretProjection().WithName(configurationName(cp))
	for _, key := range slices.Sorted(maps.Keys(pack(some))) {
		source.WithItems(applycorev1.KeyToPath().WithKey(key).WithPath(strings.Replace(key, ".", "/", 1)))
	}
	template.WithAnnotations(map[string]string{configurationAnnotation: digest})
	template.Spec.WithVolumes(mounted(configurationVolume, applycorev1.VolumeProjection().WithSecret(source)))
	template.Spec.Containers[0].WithVolumeMounts(
		applycorev1.VolumeMount().WithName(configurationVolume).WithMountPath(configuration.Dir).WithReadOnly(true))
	return nil
}

// configurationArgs are the flags by which servers read their sections.
func configurationArgs(w *work) ([]string, error) {
	var args []string
	for _, flag := range []struct {
		section configuration.Section
		name    string
	}{
		{configuration.Authentication, "authentication-config"},
		{configuration.Authorization, "authorization-config"},
		{configuration.Audit, "audit-policy-file"},
		{configuration.AuditWebhook, "audit-webhook-config-file"},
		{configuration.Admission, "admission-control-config-file"},
		{configuration.TenantLimits, "host-tenant-limits-config"},
	} {
		if w.configured[flag.section] != nil {
			args = append(args, "--"+flag.name+"="+flag.section.Path())
		}
	}
	if c := w.cp.Spec.Authentication; c != nil {
		args = append(args, listFlag("system-issuers", c.SystemIssuers)...)
	}
	if c := w.cp.Spec.Audit; c != nil && c.WebhookSecretName == "" {
		args = append(args, "--audit-log-path=-")
	}
	manager, err := managerArgs(w)
	return slices.Concat(args, webhookArgs(&w.cp.Spec), manager, limitArgs(w.cp.Spec.Limits)), err
}

// webhookArgs are the flags that say where webhooks of tenants may be. Where pods of spaces run, their policies let the
// servers in. So webhooks are not inside but by Services of their own tenant, which servers let through whatever is
// denied: by an address, one tenant's would reach another's pods.
func webhookArgs(spec *v1alpha1.ControlPlaneSpec) []string {
	webhooks := ptr.Deref(spec.TenantWebhooks, v1alpha1.ControlPlaneTenantWebhooks{})
	denied := webhooks.DeniedCIDRs
	if spec.Workloads != nil {
		denied = slices.Concat(denied, spec.Workloads.NetworkIsolation.ClusterCIDRs)
		for _, p := range network.Private() {
			denied = append(denied, p.String())
		}
	}
	return append(listFlag("tenant-webhook-denied-cidrs", denied), listFlag("tenant-webhook-allowed-cidrs", webhooks.AllowedCIDRs)...)
}

// listFlag is a flag with some values, none without.
func listFlag(name string, values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return []string{"--" + name + "=" + strings.Join(slices.Compact(slices.Sorted(slices.Values(values))), ",")}
}

// managerArgs are the flags by which a server follows the configuration of the manager, which
// an embedded one has in its process.
func managerArgs(w *work) ([]string, error) {
	files := w.configured[configuration.Manager]
	switch {
	case files == nil:
		return nil, nil
	case w.cp.Spec.Storage.Etcd == nil:
		return []string{"--manager-config=" + configuration.Manager.Path()}, nil
	}
	c, err := configv1alpha1.ParseManagerConfiguration(files[configuration.Manager.File()])
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the managers: %w", err)
	}
	return []string{"--publishable-resources=" + strings.Join(c.Publishable, ",")}, nil
}

// limitArgs are the flags of limits that a spec has.
func limitArgs(limits *v1alpha1.ControlPlaneLimits) []string {
	if limits == nil {
		return nil
	}
	var args []string
	add := func(name string, value *int64) {
		if value != nil {
			args = append(args, "--"+name+"="+strconv.FormatInt(*value, 10))
		}
	}
	if rate := limits.RateLimit; rate != nil {
		add("tenant-requests-per-second", wide(rate.RequestsPerSecond))
		add("tenant-requests-burst", wide(rate.Burst))
		add("tenant-requests-inflight", wide(rate.InFlight))
		add("tenant-watches", wide(rate.Watches))
	}
	if size := limits.RequestLimit; size != nil {
		add("tenant-body-bytes", size.BodyBytes)
		add("tenant-list-objects", wide(size.ListObjects))
	}
	add("tenant-watch-bytes", limits.TenantWatchBytes)
	add("watch-cache-history-bytes", limits.WatchCacheHistoryBytes)
	return args
}

func wide(value *int32) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}
