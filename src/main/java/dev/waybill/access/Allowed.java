package dev.waybill.access;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Who may call an operation: these roles, and operators always. {@code @Allowed({})} is for
 * operators only. A resource method without it answers nobody, and fails a test.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Allowed {

  Role[] value();

  /**
   * For what concerns every tenant (policies, figures of a kind, tokens): a caller that is bound to
   * a tenant is refused, whatever the role.
   */
  boolean everyTenant() default false;
}
