import { Tooltip } from '@base-ui/react/tooltip'
import type { ComponentProps } from 'react'
import { Icon, type IconName } from './icons.tsx'

interface ButtonProps extends ComponentProps<'button'> {
  look?: 'plain' | 'primary' | 'danger' | 'quiet'
  icon?: IconName
  isBusy?: boolean
}

export function Button({ look = 'plain', icon, isBusy = false, children, className = '', ...props }: ButtonProps) {
  return (
    <button
      type="button"
      {...props}
      className={`button ${look} ${className}`}
      aria-busy={isBusy}
      disabled={props.disabled || isBusy}
    >
      {icon && <Icon name={icon} size={16} />}
      {children}
    </button>
  )
}

interface IconButtonProps extends Omit<ComponentProps<'button'>, 'children'> {
  label: string
  icon: IconName
}

/** A button with only an icon. The label is both its accessible name and its tooltip. */
export function IconButton({ label, icon, className = '', ...props }: IconButtonProps) {
  return (
    // Escape closes the tooltip and the dialog with the button at once.
    <Tooltip.Root onOpenChange={(_, change) => change.allowPropagation()}>
      <Tooltip.Trigger
        render={<button type="button" {...props} className={`icon-button ${className}`} aria-label={label} />}
      >
        <Icon name={icon} />
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Positioner sideOffset={6}>
          <Tooltip.Popup className="tooltip">{label}</Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}
